"""The interactive shell of a kernel: plain errors, one form for pictures, output in order."""

import contextlib
import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from visual_tools.sandbox.contract import Limits
from visual_tools.sandbox.zygote.frames import CELL_PREFIX, clip, format_error
from visual_tools.sandbox.zygote.pictures import tidy, to_png
from visual_tools.sandbox.zygote.streams import drain, stream_class

_PLAIN_ENV = {"TERM": "dumb", "NO_COLOR": "1"}
_COLOURFUL_ENV = ("CLICOLOR", "FORCE_COLOR", "CLICOLOR_FORCE")


@cache
def _shell_class() -> type[Any]:
    compiler: Any = importlib.import_module("ipykernel.compiler").XCachingCompiler
    hook: Any = importlib.import_module("ipykernel.displayhook").ZMQShellDisplayHook
    zmqshell: Any = importlib.import_module("ipykernel.zmqshell")

    class CellCompiler(compiler):  # type: ignore[misc]
        """Cells are called by their number in tracebacks."""

        num_cells = 0

        def get_code_name(self, raw_code: str, transformed_code: str, number: int) -> str:
            self.num_cells += 1
            return f"{CELL_PREFIX}{number or 'unnumbered ' + str(self.num_cells)}>"

    class Publisher(zmqshell.ZMQDisplayPublisher):  # type: ignore[misc]
        limits = Limits()

        def publish(self, data: Any, metadata: Any = None, **more: Any) -> None:
            data, metadata = tidy(data, metadata, self.limits)
            drain_streams()
            super().publish(data, metadata, **more)

    class Hook(hook):  # type: ignore[misc]
        limits = Limits()

        def start_displayhook(self) -> None:
            drain_streams()
            super().start_displayhook()

        def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
            super().write_format_data(*tidy(format_dict, md_dict, self.limits))

    class SandboxShell(zmqshell.ZMQInteractiveShell):  # type: ignore[misc]
        compiler_factory = CellCompiler
        displayhook_class = Hook
        display_pub_class = Publisher

        def init_environment(self) -> None:
            super().init_environment()
            os.environ.update(_PLAIN_ENV)
            for name in _COLOURFUL_ENV:
                os.environ.pop(name, None)

        def set_limits(self, limits: Limits) -> None:
            """What pictures may be from now on."""
            self.limits = self.displayhook.limits = self.display_pub.limits = limits

        def system_piped(self, cmd: str) -> None:
            """Run `!cmd`; what it writes comes through the pipe."""
            drain_streams()
            command = self.var_expand(cmd, depth=1)
            self.user_ns["_exit_code"] = subprocess.call(["/bin/bash", "-c", command], stdin=subprocess.DEVNULL)
            drain_streams()

        system = system_piped

        def payloadpage_page(self, strg: Any, *args: Any, **kwargs: Any) -> None:
            """Print what would go to a pager, as `name?` does."""
            print(strg["text/plain"] if isinstance(strg, dict) else strg)

        def ask_exit(self) -> None:
            """The kernel is not the cell's to end."""
            print("exit() has no effect: the kernel keeps running")

        def showtraceback(self, exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
            kind, error, tb = self._get_exc_info(exc_tuple)
            self._showtraceback(kind, clip(str(error)), format_error(kind, error, tb, os.environ["HOME"]))

        def _format_exception_for_storage(self, exception: BaseException, *args: Any, **kwargs: Any) -> dict[str, Any]:
            """For a history that is not kept; IPython's own would format every frame once more."""
            return {"ename": type(exception).__name__, "evalue": str(exception), "traceback": []}

        def showsyntaxerror(self, *args: Any, **kwargs: Any) -> None:
            self.showtraceback()

        def showindentationerror(self) -> None:
            self.showtraceback()

    return SandboxShell


def make_shell(app: Any) -> Any:
    """The shell that every fork continues, with matplotlib drawing into the cell's output.

    Args:
        app: The kernel application.
    """
    kind = _shell_class()
    shell = kind.instance(parent=app, profile_dir=app.profile_dir, user_ns={}, compiler_class=kind.compiler_factory)
    shell.colors = "nocolor"
    shell.limits = Limits()
    shell.display_formatter.active_types = ["text/plain", "text/markdown", "image/png", "image/jpeg"]
    _show_pictures(shell)
    transforms = shell.input_transformer_manager.cleanup_transforms
    transforms[0] = _keep_line_numbers(transforms[0])
    shell.events.register("post_run_cell", lambda _: drain_streams())
    return shell


def _keep_line_numbers(strip: Callable[[list[str]], list[str]]) -> Callable[[list[str]], list[str]]:
    """IPython strips empty lines at the top, after which errors name wrong lines; only cell magics need it."""

    def strip_before_magic(lines: list[str]) -> list[str]:
        first = next((line for line in lines if line.strip()), "")
        return strip(lines) if first.startswith("%%") else lines

    return strip_before_magic


def _show_pictures(shell: Any) -> None:
    from PIL import Image

    formatters = shell.display_formatter.formatters
    formatters["image/png"].for_type(Image.Image, lambda image: to_png(image, shell.limits))
    formatters["image/jpeg"].for_type(Image.Image, lambda image: None)
    with contextlib.suppress(ImportError):
        inline: Any = importlib.import_module("matplotlib_inline.backend_inline")
        importlib.import_module("IPython.core.pylabtools").activate_matplotlib("inline")
        inline.configure_inline_support(shell, "inline")


def drain_streams() -> None:
    """Let everything that was written so far be on its way, in order."""
    drain(sys.stdout, sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, stream_class()):
            stream.flush()
