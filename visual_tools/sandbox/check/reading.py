"""Attacks that read what lies outside the working folder."""

import os
from pathlib import Path

from visual_tools.sandbox.check.case import Breach, cell_attack, check
from visual_tools.sandbox.check.scene import Scene

_SEARCH = """
secret = "".join(planted.secret_halves).encode()

def search(path):
    with open(path, "rb") as file:
        found = secret in file.read(1 << 20)
    if not found:
        raise FileNotFoundError(2, "read, but the secret is not in it")
    return "the secret is in it"
"""

files_outside = cell_attack(
    "files outside the working folder cannot be read",
    """
    for path in planted.canaries:
        attempt(path, lambda: open(path).read())
    """,
)

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

own_environment = cell_attack(
    "the parent's environment variables are not handed in",
    """
    import subprocess
    def look(environment):
        found = [name for name, value in environment.items() if planted.secret_halves[1] in value]
        if planted.variable not in environment and not found:
            raise FileNotFoundError(2, f"not among {len(environment)} variables")
        return found
    attempt("os.environ", lambda: look(os.environ))
    lines = subprocess.run(["env"], capture_output=True, text=True).stdout.splitlines()
    attempt("env of a child", lambda: look(dict(line.partition("=")[::2] for line in lines)))
    """,
    at_least=2,
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


@check("attack", "folders of other kernels cannot be read")
async def neighbours_files(scene: Scene) -> str:
    """The file has a rare name: both kernels may see their own folder at the same path."""
    name = f"secret-{scene.planted.token}.txt"
    path = scene.neighbour.folder / name
    path.write_text("private", "utf-8")
    answers = await scene.attempt(
        """
        for path in planted.paths:
            attempt(path, lambda: open(path).read())
        """,
        at_least=2,
        paths=[str(path), f"{scene.neighbour.inside_dir}/{name}", f"../{scene.neighbour.folder.name}/{name}"],
    )
    return answers.why_refused()


@check("attack", "files listed as written lie in the folder, also behind links and pipes")
async def listed_links(scene: Scene) -> str:
    """The caller opens what is listed: a link would make it read outside, a pipe would hold it for ever."""
    result = await scene.run(
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
    folder = scene.shared.folder.resolve()
    leading_out = [name for name in result.files_written if not _is_plain_inside(folder, folder / name)]
    if leading_out or "listed/plain" not in result.files_written:
        raise Breach(f"listed as written: {', '.join(result.files_written) or 'nothing'}")
    return f"listed: {', '.join(result.files_written)}"


def _is_plain_inside(folder: Path, path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and Path(os.path.realpath(path)).is_relative_to(folder)


CHECKS = (
    *(files_outside, password_files, home_folders, through_links, hard_links, foreign_roots, secret_in_processes),
    *(own_environment, foreign_memory, command_lines, open_descriptors, neighbours_files, listed_links),
)
