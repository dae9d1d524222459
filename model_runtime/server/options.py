"""Settings of the server. Nothing here changes what the model computes."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaAccess:
    """Where images and videos may come from, and how many. Limits of pixels are the processor's.

    Attributes:
        max_item_bytes: Of one, decoded from base64 or fetched.
        allow_http: Whether `http` and `https` URLs are fetched at all; data URLs always work.
        private_hosts: Hosts that may be fetched from although their addresses are loopback, private or link-local.
        fetch_timeout_s: For one fetch with its redirects.
        cache_bytes: Memory for decoded images that may come again with the next request; 0 for none.
    """

    max_items: int = 256
    max_item_bytes: int = 64 * 2**20
    allow_http: bool = False
    private_hosts: tuple[str, ...] = ()
    fetch_timeout_s: float = 20.0
    cache_bytes: int = 256 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """How the server treats its clients.

    Attributes:
        model_names: Further names under which the model answers, beside the engine's own.
        api_keys: Any of them opens everything; empty for no keys. `/health` is always open.
        max_body_bytes: Of one request; more is refused with 413 before it is read.
        max_tools: Tools that one request may declare.
        media: Where images and videos may come from.
        body_timeout_s: For a request to arrive.
        request_timeout_s: For a whole request; None for no limit. Answered with 504.
        queue_timeout_s: Until the engine says the first thing; None for no limit. Answered with 503.
        ping_s: A stream that has been silent so long sends a comment, so that nobody on the way closes it.
        drain_s: What requests in flight get to finish after SIGTERM.
        retry_after_s: What clients are told who come while the server drains.
        cors_origins: Origins whose pages may call the server from a browser; empty for none.
    """

    model_names: tuple[str, ...] = ()
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    max_body_bytes: int = 128 * 2**20
    max_tools: int = 1024
    media: MediaAccess = field(default_factory=MediaAccess)
    body_timeout_s: float = 60.0
    request_timeout_s: float | None = None
    queue_timeout_s: float | None = None
    ping_s: float = 15.0
    drain_s: float = 30.0
    retry_after_s: float = 5.0
    cors_origins: tuple[str, ...] = ()
