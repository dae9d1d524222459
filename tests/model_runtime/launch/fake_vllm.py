"""Stands in for the `vllm` program: the same lines, the same health check, and the ways in which it fails."""

import http.server
import os
import signal
import subprocess
import sys
import time

CHILD = "import time, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"


class Handler(http.server.BaseHTTPRequestHandler):
    num_answers = 0

    def do_GET(self) -> None:
        Handler.num_answers += 1
        is_known = self.path == "/health"
        self.send_response(200 if is_known else 404)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def main() -> None:
    mode = os.environ.get("FAKE_VLLM", "good")
    if sys.argv[1:] == ["--version"]:
        print(os.environ.get("FAKE_VLLM_VERSION", "0.33.0"))
        return
    if mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
    if mode == "leaves_child":
        child = subprocess.Popen([sys.executable, "-S", "-c", CHILD])
        say(f"child {child.pid}")
    say(f"INFO starting with {' '.join(sys.argv[1:])}; key {os.environ.get('VLLM_API_KEY', 'none')}")
    for done in range(0, 65, 1):
        bar = f"\rLoading safetensors checkpoint shards: {done * 100 // 64:3d}% Completed | {done}/64 [00:01<00:01]"
        sys.stderr.write(bar)
    say("")
    if mode.startswith("crash:"):
        say(mode.partition(":")[2])
        sys.exit(1)
    if mode == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if mode == "hang":
        time.sleep(60)
    port = int(sys.argv[sys.argv.index("--port") + 1])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.timeout = 0.05
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (mode == "dies_later" and Handler.num_answers):
        server.handle_request()
    say("RuntimeError: EngineCore died: CUDA error: out of memory")
    sys.exit(1)


if __name__ == "__main__":
    main()
