"""Attacks that change what lies outside the working folder, or the next kernel."""

import asyncio
import sysconfig
from pathlib import Path

from visual_tools.sandbox.check.case import Breach, cell_attack, check
from visual_tools.sandbox.check.scene import Scene, tell_end

_CREATE = """
for folder in planted.folders:
    attempt(folder, lambda: open(os.path.join(folder, planted.name), "w").close())
"""


async def _create_in(scene: Scene, folders: list[str], *, must_refuse: bool) -> str:
    """Let a cell make a file in each folder; what counts is what is on this machine afterwards."""
    name = f"written-{scene.planted.token}"
    folders = await asyncio.to_thread(_existing, folders)
    answers = await scene.ask(_CREATE, folders=folders, name=name)
    made = [path for path in (Path(folder, name) for folder in folders) if path.exists()]
    for path in made:
        path.unlink(missing_ok=True)  # /bin may be /usr/bin
    if made:
        raise Breach(f"files were made on this machine: {', '.join(map(str, made))}")
    if len(answers.open | answers.refused) < len(set(folders)) or (must_refuse and answers.open):
        raise Breach(
            f"written: {', '.join(answers.open) or 'nothing'}; {answers.why_refused() or tell_end(answers.result)}"
        )
    return answers.why_refused() or "written inside only, nothing on this machine"


def _existing(folders: list[str]) -> list[str]:
    return [folder for folder in folders if Path(folder).is_dir()]


@check("attack", "system folders cannot be written")
async def system_folders(scene: Scene) -> str:
    """Neither here nor in a copy: everything that a program trusts is read-only."""
    folders = ["/usr", "/usr/bin", "/usr/lib", "/etc", "/etc/cron.d", "/bin", "/var/spool/cron"]
    return await _create_in(scene, folders, must_refuse=True)


@check("attack", "nothing is written to this machine's folders for temporary files, home and run")
async def temporary_folders(scene: Scene) -> str:
    """A kernel may have a /tmp of its own."""
    places = [str(path.parent) for path in scene.planted.canaries]
    places += ["/", "/tmp", "/var/tmp", "/dev/shm", "/run", str(Path.home())]
    return await _create_in(scene, places, must_refuse=False)


@check("attack", "the Python installation cannot be written")
async def python_installation(scene: Scene) -> str:
    """Otherwise a kernel could leave code for every program that uses this Python."""
    paths = sysconfig.get_paths()
    folders = [paths["purelib"], paths["stdlib"], paths["scripts"]]
    return await _create_in(scene, folders, must_refuse=True)


@check("attack", "folders of other kernels cannot be written")
async def neighbours_folder(scene: Scene) -> str:
    """Judged from outside: both kernels may see their own folder at the same path."""
    folder = scene.neighbour.folder
    return await _create_in(scene, [str(folder), str(folder.parent)], must_refuse=False)


@check("attack", "files outside cannot be changed, cut, moved or removed")
async def existing_files(scene: Scene) -> str:
    """The planted files are compared afterwards."""
    answers = await scene.ask(
        """
        for path in planted.canaries:
            attempt("append to " + path, lambda: open(path, "a").write("x"))
            attempt("overwrite " + path, lambda: open(path, "r+").write("x"))
            attempt("truncate " + path, lambda: os.truncate(path, 0))
            attempt("move " + path, lambda: os.rename(path, path + ".moved"))
            attempt("replace " + path, lambda: os.rename("mine", path) if open("mine", "w").close() is None else 0)
            attempt("remove " + path, lambda: os.unlink(path))
        """
    )
    damage = scene.planted.damage()
    scene.planted.restore()
    if damage or len(answers.refused) < 6:
        raise Breach("; ".join(damage) or f"attempts that worked: {answers.open}; {tell_end(answers.result)}")
    return answers.why_refused()


@check("attack", "modes, owners, times and attributes of files outside cannot be changed")
async def metadata(scene: Scene) -> str:
    """Landlock alone does not refuse these."""
    before = [path.stat().st_ctime_ns for path in scene.planted.canaries]
    answers = await scene.ask(
        """
        for path in planted.canaries:
            attempt("chmod", lambda: os.chmod(path, 0o666))
            attempt("chown", lambda: os.chown(path, 12345, 12345))
            attempt("utime", lambda: os.utime(path, (1, 1)))
            attempt("setxattr", lambda: os.setxattr(path, "user.k25check", b"x"))
        """
    )
    after = [path.stat().st_ctime_ns for path in scene.planted.canaries]
    if changed := [str(p) for p, old, new in zip(scene.planted.canaries, before, after, strict=True) if old != new]:
        scene.planted.restore()
        raise Breach(f"changed: {', '.join(changed)}")
    if len(answers.open | answers.refused) < 4:
        raise Breach(f"not all attempts were made: {tell_end(answers.result)}")
    return answers.why_refused() or "seemingly changed, in truth not"


system_files = cell_attack(
    "modes of programs and libraries cannot be changed",
    """
    def set_again(path):
        os.chmod(path, os.stat(path).st_mode)  # the mode that it has: harmless where it works
    import json.decoder
    before = os.stat(json.decoder.__file__).st_ctime_ns
    for path in ("/usr/bin/env", "/etc/passwd", json.decoder.__file__):
        try:
            changed = os.stat(path).st_ctime_ns
            set_again(path)
            changed = os.stat(path).st_ctime_ns != changed
        except OSError as error:
            tell("refused", path, error)
        else:
            tell("open" if changed else "refused", path, "without effect" if not changed else "its inode was written")
    """,
    at_least=3,
)

_INFECT = """
from pathlib import Path
evil = "import builtins, pathlib\\nbuiltins.infected = True\\n"
evil += f"pathlib.Path({str(Path.cwd() / 'infected')!r}).touch()\\n"
python = f"python3.{__import__('sys').version_info[1]}"
places = ["sitecustomize.py", "usercustomize.py", ".pythonrc.py", "evil.pth", "json.py", "IPython.py", "ipykernel.py"]
places += [".ipython/profile_default/startup/00-evil.py", ".ipython/profile_default/ipython_config.py"]
places += [".ipython/profile_default/ipython_kernel_config.py", ".jupyter/jupyter_config.py", "ipython_config.py"]
places += [f".local/lib/{python}/site-packages/{name}" for name in ("evil.pth", "sitecustomize.py", "usercustomize.py")]
places += [".config/matplotlib/matplotlibrc.py", ".ipython/profile_default/startup/01.ipy"]
roots = {Path.cwd()}
if not os.path.exists(planted.base):  # where it is seen, /tmp and the home folder may be this machine's own
    roots |= {Path.home(), Path("/tmp")}
for root in roots:
    for place in places:
        try:
            (root / place).parent.mkdir(parents=True, exist_ok=True)
            (root / place).write_text(("import builtins; builtins.infected = True\\n") if ".pth" in place else evil)
        except OSError:
            pass
tell("fact", "planted", len(places))
"""
_IS_INFECTED = """
import builtins
tell("fact", "infected", int(hasattr(builtins, "infected")))
"""


@check("attack", "a kernel cannot infect the next one in its folder, or its neighbours", place="own")
async def infection(scene: Scene) -> str:
    """Files that Python and IPython load by themselves are left behind; the next kernel must not load them."""
    async with scene.kernel() as first:
        await scene.ask(_INFECT, kernel=first)
        folder = first.folder
    second = await scene.maker.make_kernel(folder)
    try:
        async with scene.kernel() as elsewhere:
            answers = [await scene.ask(_IS_INFECTED, kernel=kernel) for kernel in (second, elsewhere)]
    finally:
        await second.close()
    seen = [answer.facts.get("infected") for answer in answers]
    if seen != [0, 0] or (folder / "infected").exists():
        ends = ", ".join(answer.result.status for answer in answers)
        raise Breach(
            f"the next kernels ran what was left behind: same folder {seen[0]}, other folder {seen[1]} ({ends})"
        )
    return "left behind, not loaded"


CHECKS = (
    *(system_folders, temporary_folders, python_installation, neighbours_folder, existing_files),
    *(metadata, system_files, infection),
)
