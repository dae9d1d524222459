"""A port that a test may listen on, or that nobody listens on."""

import random
import socket

_EPHEMERAL_FROM = 32768
"""Linux gives these out by itself: between the question and the use, another program could get one of them."""


def find_free_port() -> int:
    """A free port of 127.0.0.1 that no program gets unless it asks for that very one."""
    while True:
        port = random.SystemRandom().randrange(20_000, _EPHEMERAL_FROM)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
