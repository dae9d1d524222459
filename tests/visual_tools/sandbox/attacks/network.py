"""Attacks over the network and over sockets of this machine; listeners outside tell what came through."""

import asyncio
import socket

from visual_tools.sandbox.check.checks import attempt_unheard
from visual_tools.sandbox.check.context import CheckContext, CheckFailed, cell_attack, check


@check("attack", "no UDP message to this machine")
async def udp(context: CheckContext) -> str:
    """A UDP send succeeds even when nothing arrives, so the listeners are asked."""
    context.canaries.heard()
    answers = await context.ask(
        """
        import socket
        for host, port in planted.udp:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            attempt(host, lambda: socket.socket(family, socket.SOCK_DGRAM).sendto(b"x", (host, port)))
        """
    )
    return _check_unheard(
        context, answers.why_refused() or "sent, but nothing arrived", len(answers.open | answers.refused)
    )


@check("attack", "no name is looked up")
async def dns(context: CheckContext) -> str:
    """A query by hand to a planted server, and the system's own way."""
    context.canaries.heard()
    answers = await context.ask(
        """
        import socket
        query = struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + b"\\x07example\\x03com\\0" + struct.pack(">2H", 1, 1)
        attempt("getaddrinfo", lambda: socket.getaddrinfo("example.com", 80))
        for address in planted.udp[:1]:
            attempt("query", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(query, tuple(address)))
        """
    )
    if "getaddrinfo" in answers.open:
        raise CheckFailed("a name was resolved: " + answers.open["getaddrinfo"])
    return _check_unheard(context, answers.why_refused(), len(answers.open | answers.refused))


def _check_unheard(context: CheckContext, why: str, num_attempts: int) -> str:
    if reached := context.canaries.heard():
        raise CheckFailed(f"reached from inside: {', '.join(reached)}")
    if not num_attempts:
        raise CheckFailed("no attempt was made")
    return why


@check("attack", "abstract Unix sockets of this machine cannot be reached")
async def unix_abstract(context: CheckContext) -> str:
    """These have no path that could be hidden."""
    cell = """
    import socket
    attempt("connect", lambda: socket.socket(socket.AF_UNIX).connect("\\0" + planted.abstract))
    """
    return await attempt_unheard(context, cell, at_least=1)


@check("attack", "programs started by a cell have no network either")
async def programs(context: CheckContext) -> str:
    """A filter must be inherited."""
    cell = """
    import subprocess, sys
    host, port = planted.tcp[0]
    code = f"import socket; socket.create_connection(({host!r}, {port}), timeout=1)"
    def start(command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=8)
        if done.returncode:
            raise ConnectionRefusedError(done.returncode, done.stderr[-120:])
    attempt("python", lambda: start([sys.executable, "-I", "-c", code]))
    attempt("bash", lambda: start(["/bin/bash", "-c", f"exec 3<>/dev/tcp/{host}/{port}"]))
    """
    return await attempt_unheard(context, cell, at_least=2)


@check("attack", "a server inside cannot be reached from this machine", place="own")
async def server_inside(context: CheckContext) -> str:
    """A listening socket inside must not be reachable from outside."""
    async with context.kernel() as kernel:
        answers = await context.ask(
            """
            import socket, threading
            try:
                server = socket.create_server(("0.0.0.0", 0))
            except OSError as error:
                tell("refused", "listen", error)
            else:
                tell("fact", "port", server.getsockname()[1])
            """,
            kernel=kernel,
        )
        port = answers.facts.get("port")
        if port is not None and await asyncio.to_thread(_is_open, port):
            raise CheckFailed(f"port {port}, opened inside, answers outside")
        if port is None and not answers.refused:
            raise CheckFailed("no attempt was made")
    return answers.why_refused() or "it listens where nobody is"


def _is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


raw_sockets = cell_attack(
    "raw sockets cannot be made",
    """
    import socket
    attempt("ICMP", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
    attempt("IP", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 255))
    attempt("ICMPv6", lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58))
    attempt("packet", lambda: socket.socket(17, socket.SOCK_RAW, 0x0300))
    """,
    at_least=4,
)

other_families = cell_attack(
    "no sockets but Unix and internet ones can be made",
    """
    import socket
    families = {"netlink": (16, 3, 0), "vsock": (40, 1, 0), "alg": (38, 5, 0), "bluetooth": (31, 3, 1)}
    families |= {"can": (29, 3, 1)}
    families |= {"key": (15, 3, 2), "xdp": (44, 3, 0), "qipcrtr": (42, 2, 0), "tipc": (30, 5, 0), "smc": (43, 1, 0)}
    for name, arguments in families.items():
        attempt(name, lambda: socket.socket(*arguments))
    """,
    at_least=10,
)

interfaces = cell_attack(
    "network interfaces of this machine are not seen",
    """
    import socket
    def look():
        outer = [name for _, name in socket.if_nameindex() if name != "lo"]
        if not outer:
            raise FileNotFoundError(2, "only loopback")
        return outer
    attempt("if_nameindex", look)
    def read():
        lines = open("/proc/net/tcp").read().splitlines()[1:] + open("/proc/net/unix").read().splitlines()[1:]
        if not any(planted.token in line for line in lines):
            raise FileNotFoundError(2, "the planted sockets are not listed")
        return "the planted sockets are listed"
    attempt("/proc/net", read)
    """,
    at_least=2,
)

CHECKS = (
    *(udp, dns, unix_abstract, programs, server_inside),
    *(raw_sockets, other_families, interfaces),
)
