"""Landlock: what is left open, what is closed, and errors that say why."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from visual_tools.errors import SandboxError
from visual_tools.sandbox.landlock import abi_version, restrict

pytestmark = pytest.mark.skipif(abi_version() == 0, reason="no Landlock here")

SCRIPT = """
import errno, json, os, socket, subprocess, sys
from visual_tools.sandbox.landlock import restrict

def attempt(action):
    try:
        action()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "works"

def write(path):
    with open(path, "w") as file:
        file.write("x")

def connect(address):
    with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as client:
        client.connect(address)

folder = sys.argv[1]
child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)  # ends when this process does
tcp = socket.create_server(("127.0.0.1", 0))
abstract = socket.socket(socket.AF_UNIX)
abstract.bind("\\0k25-" + str(os.getpid()))
abstract.listen()
restrict(read_write=[folder + "/own", folder + "/file", "/dev/null"], read_only=["/usr", folder + "/given"])
told = {
    "write own": attempt(lambda: write(folder + "/own/new")),
    "move own": attempt(lambda: os.rename(folder + "/own/new", folder + "/own/moved")),
    "write the file": attempt(lambda: write(folder + "/file")),
    "null": attempt(lambda: write("/dev/null")),
    "read given": attempt(lambda: open(folder + "/given/file").read()),
    "program": attempt(lambda: subprocess.run(["/usr/bin/env"], stdout=subprocess.DEVNULL, env={}, check=True)),
    "write given": attempt(lambda: write(folder + "/given/file")),
    "read beside": attempt(lambda: open(folder + "/beside").read()),
    "list beside": attempt(lambda: os.listdir(folder)),
    "truncate beside": attempt(lambda: os.truncate(folder + "/beside", 0)),
    "remove beside": attempt(lambda: os.unlink(folder + "/beside")),
    "through a link": attempt(lambda: open(folder + "/own/link").read()),
    "passwords": attempt(lambda: open("/etc/passwd").read()),
    "device": attempt(lambda: os.mknod(folder + "/own/device", 0o20600, os.makedev(1, 3))),
    "tcp": attempt(lambda: connect(tcp.getsockname())),
    "listen": attempt(lambda: socket.create_server(("127.0.0.1", 0))),
    "abstract": attempt(lambda: connect("\\0k25-" + str(os.getpid()))),
    "signal": attempt(lambda: os.kill(child.pid, 0)),
}
print(json.dumps(told))
"""


def test_what_is_closed(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "given").mkdir()
    for name in ("given/file", "file", "beside"):
        (tmp_path / name).write_text("kept", "utf-8")
    (tmp_path / "own" / "link").symlink_to(tmp_path / "beside")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    told = json.loads(done.stdout)
    works = [name for name, answer in told.items() if answer == "works"]
    abi = abi_version()
    since = {"truncate beside": 3, "tcp": 4, "listen": 4, "abstract": 6, "signal": 6}
    assert works == [
        *("write own", "move own", "write the file", "null", "read given", "program"),
        *(name for name in told if since.get(name, 0) > abi),
    ]
    assert told["passwords"] == "EACCES"
    if abi >= 3:
        assert (tmp_path / "beside").read_text("utf-8") == "kept"


def test_a_missing_path_is_said() -> None:
    with pytest.raises(SandboxError, match="'/no/such/folder' cannot be allowed: No such file or directory"):
        restrict(read_write=["/no/such/folder"], read_only=[])
