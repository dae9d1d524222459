"""The IPython kernel of a fork: built as far as possible before the fork, given its sockets after it."""

import os
import signal
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

from visual_tools.sandbox.contract import Limits
from visual_tools.sandbox.zygote.shell import make_shell
from visual_tools.sandbox.zygote.streams import stream_class

_NUM_QUEUED = 64  # messages


@cache
def _app_class() -> type[Any]:
    import zmq
    from ipykernel.displayhook import ZMQDisplayHook
    from ipykernel.iostream import IOPubThread
    from ipykernel.kernelapp import IPKernelApp

    class KernelApp(IPKernelApp):
        """An application whose sockets listen already: a port is the number of a listening descriptor."""

        def _try_bind_socket(self, s: Any, port: int) -> int:
            if port:
                s.setsockopt(zmq.USE_FD, port)
            s.bind(f"ipc://kernel-{port}" if port else "inproc://stdin")
            return port

        def init_iopub(self, context: Any) -> None:
            self.iopub_socket = context.socket(zmq.XPUB)
            self.iopub_socket.linger = 1000
            self.iopub_socket.sndhwm = _NUM_QUEUED
            self.iopub_socket.setsockopt(zmq.XPUB_NODROP, 1)  # wait for the reader: a lost `idle` would lose the cell
            self._bind_socket(self.iopub_socket, self.iopub_port)
            self.iopub_thread = IOPubThread(self.iopub_socket, pipe=False, session=self.session)
            self.iopub_thread.start()
            self.iopub_socket = self.iopub_thread.background_socket

        def prepare(self) -> None:
            """What needs no socket: once, before any fork."""
            super(IPKernelApp, self).initialize([])
            self.init_pdb()
            self.configure_tornado_logger()

        def open(self, ports: Mapping[str, int], key: str) -> None:
            """What does, in the fork."""
            self.session.key = key.encode()
            self.shell_port, self.control_port = ports["shell"], ports["control"]
            self.iopub_port, self.stdin_port = ports["iopub"], 0
            self.init_sockets()
            self.init_io()
            self.init_signal()
            self.init_kernel()
            self.init_shell()

        def init_io(self) -> None:
            make_stream = stream_class()
            sys.stdout = make_stream(self.session, self.iopub_thread, "stdout")
            sys.stderr = make_stream(self.session, self.iopub_thread, "stderr")
            sys.displayhook = self.displayhook = ZMQDisplayHook(self.session, self.iopub_socket)

        def configure_tornado_logger(self) -> None:
            """Once is enough."""

    return KernelApp


def prepare_app() -> Any:
    """The application with its shell, nothing started yet; made once in the zygote."""
    sys.modules["debugpy"] = None  # type: ignore[assignment]  # no debugger: it starts threads and listens
    from ipykernel.ipkernel import IPythonKernel
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    app = _app_class().instance(config=config, log_level=50)
    app.prepare()
    app.shell = make_shell(app)
    app.kernel_class = type("SandboxKernel", (IPythonKernel,), {"shell_class": type(app.shell)})
    return app


def run_app(app: Any, ports: Mapping[str, int], key: str, limits: Limits) -> None:
    """Serve requests until the kernel is ended; never returns normally."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    app.shell.set_limits(limits)
    app.open(ports, key)
    app.kernel.shell.kernel = app.kernel
    os.register_at_fork(after_in_child=_print_to_the_pipe)
    app.start()


def _print_to_the_pipe() -> None:
    """In a fork of the kernel: its threads are gone, so print where subprocesses print."""
    for name, number in (("stdout", 1), ("stderr", 2)):
        setattr(sys, name, open(number, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False))  # noqa: PTH123
