"""Attacks that read or change what lies outside the working folder, or that change the next kernel."""

import asyncio
import os
import sysconfig
from pathlib import Path

from visual_tools.sandbox.check.context import CheckContext, CheckFailed, cell_attack, check, tell_end

_SEARCH = """
secret = "".join(planted.secret_halves).encode()

def search(path):
    with open(path, "rb") as file:
        found = secret in file.read(1 << 20)
    if not found:
        raise FileNotFoundError(2, "read, but the secret is not in it")
    return "the secret is in it"
"""


password_files = cell_attack(
    "password files and private keys cannot be read",
    """
    for path in ("/etc/shadow", "/etc/gshadow", "/etc/sudoers", planted.home + "/.ssh/id_rsa"):
        attempt(path, lambda: open(path).read(20))
    attempt("child", lambda: in_child(lambda: len(open("/etc/shadow").read())))
    """,
    at_least=5,
)

home_folders = cell_attack(
    "home folders do not show what is in them",
    """
    def look(folder):
        names = [name for name in os.listdir(folder) if planted.token in name or name in (".ssh", ".bash_history")]
        if not names:
            raise FileNotFoundError(2, "nothing of the real one is seen")
        return names
    for folder in {planted.home, "/root", "/tmp", "/dev/shm", os.path.dirname(planted.base)}:
        attempt(folder, lambda: look(folder))
    """,
    at_least=3,
)

through_links = cell_attack(
    "symbolic links out of the folder lead nowhere",
    """
    for number, path in enumerate([*planted.canaries, "/etc/shadow"]):
        os.symlink(path, f"link-{number}")
        attempt(path, lambda: open(f"link-{number}").read(20))
        os.unlink(f"link-{number}")
    """,
    at_least=2,
)

hard_links = cell_attack(
    "hard links to files outside cannot be made",
    """
    for number, path in enumerate([*planted.canaries, "/etc/shadow", "/usr/bin/env"]):
        attempt(path, lambda: os.link(path, f"hard-{number}"))
    """,
    at_least=3,
)

foreign_roots = cell_attack(
    "roots and current folders of other processes lead nowhere",
    """
    for pid in others():
        for way in ("root", "cwd"):
            attempt(f"{pid}/{way}", lambda: open(f"/proc/{pid}/{way}{planted.canaries[0]}").read())
    """,
    at_least=4,
)

secret_in_processes = cell_attack(
    "the environment of no process shows the secrets of the parent",
    _SEARCH
    + """
for pid in ("self", *others()):
    attempt(f"{pid}/environ", lambda: search(f"/proc/{pid}/environ"))
for pid in os.listdir("/proc") if os.access("/proc", os.R_OK) else ():
    if pid.isdigit():
        attempt(f"{pid}/environ", lambda: search(f"/proc/{pid}/environ"))
""",
    at_least=3,
)


foreign_memory = cell_attack(
    "the memory of other processes cannot be opened",
    """
    for pid in others():
        for name in ("mem", "maps", "syscall"):
            attempt(f"{pid}/{name}", lambda: open(f"/proc/{pid}/{name}", "rb").close())
    """,
    at_least=6,
)

command_lines = cell_attack(
    "processes outside are not seen",
    """
    def look(pid):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            found = b"victim-" + planted.token.encode() in file.read()
        if not found:
            raise FileNotFoundError(2, "another process")
        return "seen"
    attempt("the planted process", lambda: look(planted.victim))
    for pid in os.listdir("/proc") if os.access("/proc", os.R_OK) else ():
        if pid.isdigit():
            attempt(pid, lambda: look(pid))
    """,
)

open_descriptors = cell_attack(
    "no descriptor of the parent is inherited",
    """
    def look(number):
        secret = "".join(planted.secret_halves).encode()
        if os.pread(number, 64, 0) != secret:
            raise FileNotFoundError(2, "another file")
        return "the planted file is open"
    for number in range(3, 1024):
        try:
            os.fstat(number)
        except OSError:
            continue
        attempt(f"descriptor {number}", lambda: look(number))
    attempt("the planted one", lambda: look(planted.descriptor))
    """,
)
_CREATE = """
for folder in planted.folders:
    attempt(folder, lambda: open(os.path.join(folder, planted.name), "w").close())
"""
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


@check("attack", "folders of other kernels cannot be read")
async def neighbours_files(context: CheckContext) -> str:
    """The file has a rare name: both kernels may see their own folder at the same path."""
    name = f"secret-{context.canaries.token}.txt"
    path = context.neighbour.folder / name
    path.write_text("private", "utf-8")
    answers = await context.attempt(
        """
        for path in planted.paths:
            attempt(path, lambda: open(path).read())
        """,
        at_least=2,
        paths=[str(path), f"{context.neighbour.inside_dir}/{name}", f"../{context.neighbour.folder.name}/{name}"],
    )
    return answers.why_refused()


@check("attack", "files listed as written lie in the folder, also behind links and pipes")
async def listed_links(context: CheckContext) -> str:
    """The caller opens what is listed: a link would make it read outside, a pipe would hold it for ever."""
    result = await context.run(
        """
        import shutil
        shutil.rmtree("listed", ignore_errors=True)
        os.makedirs("listed")
        os.symlink(planted.canaries[0], "listed/file")
        os.symlink("/etc", "listed/folder")
        os.symlink("/dev/zero", "listed/endless")
        os.symlink("listed", "listed/circle")
        os.mkfifo("listed/pipe")
        open("listed/plain", "w").write("x")
        """
    )
    folder = context.shared.folder.resolve()
    leading_out = [name for name in result.files_written if not _is_plain_inside(folder, folder / name)]
    if leading_out or "listed/plain" not in result.files_written:
        raise CheckFailed(f"listed as written: {', '.join(result.files_written) or 'nothing'}")
    return f"listed: {', '.join(result.files_written)}"


def _is_plain_inside(folder: Path, path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and Path(os.path.realpath(path)).is_relative_to(folder)


async def _create_in(context: CheckContext, folders: list[str], *, must_refuse: bool) -> str:
    """Let a cell make a file in each folder; what counts is what is on this machine afterwards."""
    name = f"written-{context.canaries.token}"
    folders = await asyncio.to_thread(_existing, folders)
    answers = await context.ask(_CREATE, folders=folders, name=name)
    made = [path for path in (Path(folder, name) for folder in folders) if path.exists()]
    for path in made:
        path.unlink(missing_ok=True)  # /bin may be /usr/bin
    if made:
        raise CheckFailed(f"files were made on this machine: {', '.join(map(str, made))}")
    if len(answers.open | answers.refused) < len(set(folders)) or (must_refuse and answers.open):
        raise CheckFailed(
            f"written: {', '.join(answers.open) or 'nothing'}; {answers.why_refused() or tell_end(answers.result)}"
        )
    return answers.why_refused() or "written inside only, nothing on this machine"


def _existing(folders: list[str]) -> list[str]:
    return [folder for folder in folders if Path(folder).is_dir()]


@check("attack", "system folders cannot be written")
async def system_folders(context: CheckContext) -> str:
    """Neither here nor in a copy: everything that a program trusts is read-only."""
    folders = ["/usr", "/usr/bin", "/usr/lib", "/etc", "/etc/cron.d", "/bin", "/var/spool/cron"]
    return await _create_in(context, folders, must_refuse=True)


@check("attack", "nothing is written to this machine's folders for temporary files, home and run")
async def temporary_folders(context: CheckContext) -> str:
    """A kernel may have a /tmp of its own."""
    places = [str(path.parent) for path in context.canaries.files]
    places += ["/", "/tmp", "/var/tmp", "/dev/shm", "/run", str(Path.home())]
    return await _create_in(context, places, must_refuse=False)


@check("attack", "the Python installation cannot be written")
async def python_installation(context: CheckContext) -> str:
    """Otherwise a kernel could leave code for every program that uses this Python."""
    paths = sysconfig.get_paths()
    folders = [paths["purelib"], paths["stdlib"], paths["scripts"]]
    return await _create_in(context, folders, must_refuse=True)


@check("attack", "folders of other kernels cannot be written")
async def neighbours_folder(context: CheckContext) -> str:
    """Judged from outside: both kernels may see their own folder at the same path."""
    folder = context.neighbour.folder
    return await _create_in(context, [str(folder), str(folder.parent)], must_refuse=False)


@check("attack", "modes, owners, times and attributes of files outside cannot be changed")
async def metadata(context: CheckContext) -> str:
    """Landlock alone does not refuse these."""
    before = [path.stat().st_ctime_ns for path in context.canaries.files]
    answers = await context.ask(
        """
        for path in planted.canaries:
            attempt("chmod", lambda: os.chmod(path, 0o666))
            attempt("chown", lambda: os.chown(path, 12345, 12345))
            attempt("utime", lambda: os.utime(path, (1, 1)))
            attempt("setxattr", lambda: os.setxattr(path, "user.k25check", b"x"))
        """
    )
    after = [path.stat().st_ctime_ns for path in context.canaries.files]
    if changed := [str(p) for p, old, new in zip(context.canaries.files, before, after, strict=True) if old != new]:
        context.canaries.restore()
        raise CheckFailed(f"changed: {', '.join(changed)}")
    if len(answers.open | answers.refused) < 4:
        raise CheckFailed(f"not all attempts were made: {tell_end(answers.result)}")
    return answers.why_refused() or "seemingly changed, in truth not"


@check("attack", "a kernel cannot infect the next one in its folder, or its neighbours", place="own")
async def infection(context: CheckContext) -> str:
    """Files that Python and IPython load by themselves are left behind; the next kernel must not load them."""
    async with context.kernel() as first:
        await context.ask(_INFECT, kernel=first)
        folder = first.folder
    second = await context.maker.make_kernel(folder)
    try:
        async with context.kernel() as elsewhere:
            answers = [await context.ask(_IS_INFECTED, kernel=kernel) for kernel in (second, elsewhere)]
    finally:
        await second.close()
    seen = [answer.facts.get("infected") for answer in answers]
    if seen != [0, 0] or (folder / "infected").exists():
        ends = ", ".join(answer.result.status for answer in answers)
        raise CheckFailed(
            f"the next kernels ran what was left behind: same folder {seen[0]}, other folder {seen[1]} ({ends})"
        )
    return "left behind, not loaded"


CHECKS = (
    *(password_files, home_folders, through_links, hard_links, foreign_roots, secret_in_processes),
    *(foreign_memory, command_lines, open_descriptors, neighbours_files, listed_links),
    *(
        system_folders,
        temporary_folders,
        python_installation,
        neighbours_folder,
    ),
    *(metadata, system_files, infection),
)
