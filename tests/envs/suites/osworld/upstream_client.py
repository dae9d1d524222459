"""Drives a guest server with upstream's own controllers, as they come from PyPI; prints what they got as JSON.

    python upstream_client.py HOST SERVER_PORT CHROMIUM_PORT

Run by a Python that has `desktop-env` (installed without its dependencies), requests, requests-toolbelt, python-dotenv
and playwright. What `setup.py` imports besides, a client of Google Drive and all metrics, is not there and not used.
"""

import base64
import importlib.util
import json
import sys
import tempfile
import types
from pathlib import Path

FOLDERS = {
    "desktop_env.evaluators.metrics": {},
    "desktop_env.evaluators.metrics.utils": {"compare_urls": lambda one, other: one.rstrip("/") == other.rstrip("/")},
    "pydrive": {},
    "pydrive.auth": {"GoogleAuth": None},
    "pydrive.drive": {"GoogleDrive": None, "GoogleDriveFile": None, "GoogleDriveFileList": None},
}
for name, content in FOLDERS.items():
    stub = sys.modules[name] = types.ModuleType(name)
    stub.__dict__.update(content)

from desktop_env.controllers.python import PythonController  # noqa: E402
from desktop_env.controllers.setup import SetupController  # noqa: E402


def look(controller: PythonController) -> dict[str, object]:
    """Everything that the first controller asks for."""
    screenshot = controller.get_screenshot() or b""
    controller.start_recording()
    controller.execute_action({"action_type": "MOVE_TO", "x": 30, "y": 40})
    controller.execute_action({"action_type": "CLICK", "x": 600, "y": 400, "button": "left", "num_clicks": 1})
    controller.execute_action({"action_type": "TYPING", "text": "Upstream says hello"})
    controller.execute_action({"action_type": "HOTKEY", "keys": ["ctrl", "s"]})
    controller.execute_action({"action_type": "PRESS", "key": "escape"})
    with tempfile.TemporaryDirectory() as folder:
        controller.end_recording(f"{folder}/video.mp4")
        video = Path(folder, "video.mp4").read_bytes()
    return {
        "screenshot": screenshot[:4].hex(),
        "a11y": controller.get_accessibility_tree(),
        "terminal": controller.get_terminal_output(),
        "python": controller.execute_python_command("print(pyautogui.position())"),
        "failing": controller.execute_python_command("raise SystemExit(3)"),
        "script": controller.run_python_script("print(6 * 7)"),
        "bash": controller.run_bash_script("pwd; echo to-stderr >&2; exit 4", working_dir="/tmp"),
        "video": video[4:8].decode("latin-1"),
        "platform": controller.get_vm_platform(),
        "screen": controller.get_vm_screen_size(),
        "window": controller.get_vm_window_size("xterm"),
        "wallpaper": base64.b64encode(controller.get_vm_wallpaper() or b"").decode(),
        "desktop": controller.get_vm_desktop_path(),
        "tree": controller.get_vm_directory_tree("/home/user/Documents"),
        "file": (controller.get_file("/home/user/Documents/a/uploaded.txt") or b"").decode(),
        "none": controller.get_file("/home/user/none"),
    }


def main(host: str, server_port: int, chromium_port: int) -> None:
    """Set up, look, print."""
    controller = PythonController(vm_ip=host, server_port=server_port)
    controller.retry_interval = 0
    with tempfile.TemporaryDirectory() as cache:
        setup = SetupController(host, server_port, chromium_port, cache_dir=cache, client_password="password")
        image = Path(cache, "image.png")
        image.write_bytes(controller.get_screenshot())
        Path(cache, "text.txt").write_text("from upstream", "utf-8")
        upload = {"local_path": f"{cache}/text.txt", "path": "/home/user/Documents/a/uploaded.txt"}
        steps = [
            {"type": "upload_file", "parameters": {"files": [upload]}},
            {"type": "upload_file", "parameters": {"files": [{"local_path": str(image), "path": "/home/user/w.png"}]}},
            {"type": "change_wallpaper", "parameters": {"path": "/home/user/w.png"}},
            {"type": "execute", "parameters": {"command": ["echo", "{SCREEN_WIDTH}"], "stdout": "width.txt"}},
            {"type": "command", "parameters": {"command": "touch /tmp/done", "shell": True}},
            {
                "type": "execute",
                "parameters": {"command": ["cat", "/tmp/done"], "until": {"returncode": 0}},
            },
            {
                "type": "command",
                "parameters": {"command": "xdg-mime default org.xfce.mousepad.desktop text/plain".split()},
            },
            {"type": "open", "parameters": {"path": "/home/user/Documents/a/uploaded.txt"}},
            {"type": "launch", "parameters": {"command": ["xterm", "-title", "first"]}},
            {
                "type": "execute_with_verification",
                "parameters": {"command": ["true"], "verification": {"window_exists": "first"}},
            },
            {"type": "activate_window", "parameters": {"window_name": "uploaded.txt"}},
            {
                "type": "command",
                "parameters": {"command": "wmctrl -r :ACTIVE: -b add,maximized_vert,maximized_horz".split()},
            },
            {
                "type": "execute_with_verification",
                "parameters": {"command": ["true"], "verification": {"window_exists": "uploaded.txt"}},
            },
        ]
        print(json.dumps({"setup": setup.setup(steps), "width": Path(cache, "width.txt").read_text("utf-8")}))
        print(json.dumps(look(controller)))
        end: list[dict[str, object]] = [
            {"type": "close_window", "parameters": {"window_name": "uploaded.txt"}},
            {"type": "launch", "parameters": {"command": "xterm -title upstream"}},
            {"type": "sleep", "parameters": {"seconds": 0.1}},
        ]
        found = {"end": setup.setup(end)}
        if controller.run_bash_script("command -v google-chrome socat")["returncode"] == 0:
            chrome = ["google-chrome", "--remote-debugging-port=1337"]
            forward = ["socat", "tcp-listen:9222,fork", "tcp:localhost:1337"]
            page = "data:text/html,<title>A page</title>"
            tabs = [
                {"type": "launch", "parameters": {"command": chrome}},
                {"type": "launch", "parameters": {"command": forward}},
                {"type": "chrome_open_tabs", "parameters": {"urls_to_open": [page]}},
            ]
            found["tabs"] = setup.setup(tabs)
        print(json.dumps(found))


if __name__ == "__main__":
    assert importlib.util.find_spec("desktop_env") is not None
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
