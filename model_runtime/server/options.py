"""Settings of the server. They do not affect the model's results."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaAccess:
    """Allowed sources and number of images and videos. Pixel limits are the processor's.

    Attributes:
        max_item_bytes: Maximum size of one item, decoded from base64 or fetched.
        allow_http: True to fetch `http` and `https` URLs; data URLs always work.
        private_hosts: Hosts that may be fetched from although their addresses are loopback, private or link-local.
        fetch_timeout_s: Timeout of one fetch including redirects.
        cache_bytes: Memory for decoded images that may be sent again; 0 for none.
    """

    max_items: int = 256
    max_item_bytes: int = 64 * 2**20
    allow_http: bool = False
    private_hosts: tuple[str, ...] = ()
    fetch_timeout_s: float = 20.0
    cache_bytes: int = 256 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Settings for the handling of clients.

    Attributes:
        model_names: Names of the model, in addition to the engine's own.
        api_keys: Keys that give full access; empty for no authentication. `/health` is always open.
        max_body_bytes: Maximum size of one request; larger ones are rejected with 413 before they are read.
        max_tools: Maximum number of tools in one request.
        media: Allowed sources of images and videos.
        body_timeout_s: Timeout for receiving a request.
        request_timeout_s: Timeout of a whole request, answered with 504; None for no limit.
        queue_timeout_s: Timeout for the engine's first output, answered with 503; None for no limit.
        ping_s: Seconds without output after which a stream sends a comment, so that no proxy closes it.
        drain_s: Seconds for requests in flight to finish after SIGTERM.
        retry_after_s: Retry delay reported to clients while the server drains.
        weights_dir: Folder below which clients may choose new weights; None to refuse them.
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
    weights_dir: Path | None = None
    cors_origins: tuple[str, ...] = ()
