"""All settings in one place; a setting has one name in files, in the environment and on the command line."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from envs.registry import env_names


def _about(
    text: str,
    default: Any,
    *,
    least: float | None = None,
    most: float | None = None,
    choices: Callable[[], Sequence[str]] | None = None,
) -> Any:
    """A field with its one-line description, which `cua config show` prints, the range of a number, and the choices."""
    return field(default=default, metadata={"about": text, "least": least, "most": most, "choices": choices})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a run is made of. Key in files `max_steps`, variable `K25_MAX_STEPS`, flag `--set max_steps=5`."""

    model: str = _about("literal, scripted:FILE, or the id of a model at base_url", "literal")
    base_url: str | None = _about("OpenAI-compatible endpoint (also OPENAI_BASE_URL)", None)
    api_key: str | None = _about("key of the endpoint (also OPENAI_API_KEY)", None)
    fallback_model: str | None = _about("model asked when the first one is down", None)
    preset: str | None = _about("sampling preset: kimi-k2.5, kimi-k2.5-instant, osworld, webarena, none", None)
    thinking: bool = _about("thinking variant of the prompt", True)
    coordinates: Literal["relative", "absolute", "qwen25"] = _about("coordinate frame of the model", "relative")
    observation: Literal["screenshot", "a11y_tree", "marks"] = _about(
        "what the model gets: the screenshot, the accessibility tree besides, or numbered boxes (browser)", "screenshot"
    )
    max_images: int = _about("screenshots in a request, the current one included", 3, least=1, most=100)
    image_format: str = _about("png, webp:QUALITY or jpeg:QUALITY", "png")
    temperature: float | Literal["omit"] | None = _about(
        "sampling temperature, or omit; unset: the preset's", None, least=0, most=10
    )
    top_p: float | Literal["omit"] | None = _about(
        "nucleus sampling, or omit; unset: the preset's", None, least=0.0001, most=1
    )
    max_output_tokens: int | None = _about(
        "limit on the tokens of one reply; 24000 for `cua ask` unless set", None, least=1, most=10000000
    )
    streaming: bool = _about("ask the model for a stream", True)
    request_timeout: float = _about("limit on seconds of one call of the model", 1200.0, least=0.1, most=604800)
    max_retries: int = _about("calls after a failed one", 5, least=0, most=1000)
    prices: Path | None = _about("price table (JSON), for costs and max_cost", None)

    env: str = _about("which environment: browser, desktop, or one of another package", "browser", choices=env_names)
    env_options: tuple[str, ...] = _about("options of an environment of another package, NAME=VALUE", ())
    viewport: str = _about("size of the browser page, CSS px", "1280x720")
    device_scale: float = _about("device pixels per CSS px", 1.0, least=0.1, most=10)
    headed: bool = _about("show the browser window", False)
    locale: str | None = _about("browser locale, such as de-DE", None)
    timezone: str | None = _about("browser time zone, such as Europe/Berlin", None)
    geolocation: str | None = _about("browser position: LATITUDE,LONGITUDE", None)
    proxy: str | None = _about("proxy server of the browser", None)
    storage_state: Path | None = _about("cookies and storage to start with, and to save at the end", None)
    uploads: Path | None = _about("folder whose files the agent may upload", None)
    har: Path | None = _about("record network traffic into this HAR file", None)
    ignore_https_errors: bool = _about("accept wrong certificates", False)
    allow_domains: tuple[str, ...] = _about("the only domains the browser may reach", ())
    deny_domains: tuple[str, ...] = _about("domains that the browser may not reach", ())
    display: str | None = _about("X display to attach to; unset starts a private one", None)
    screen: str = _about("size of the private display, px", "1920x1080")
    monitor: int | None = _about("monitor to use, from 0; unset means the whole screen", None, least=0, most=64)
    password: str = _about("password of the computer, told to the model", "")

    approve: Literal["ask", "auto", "yolo"] = _about("ask about every step, risky ones, or never", "auto")
    policy: Path | None = _about("file of action rules", None)
    secrets: Path | None = _about("file of secret values, typed as {{name}}", None)

    http_auth: Path | None = _about(
        "file of logins ([[login]] origin, username, password) for HTTP authentication", None
    )

    sandbox: Literal["auto", "bubblewrap", "landlock", "none"] = _about(
        "what isolates code that a model writes", "auto"
    )
    cell_timeout: float = _about("limit on seconds of one cell or command", 60.0, least=0.1, most=86400)
    context: Literal["none", "hide-tool-result", "discard-all", "summary"] = _about(
        "how a conversation with tools that grows too long is shortened", "none"
    )
    max_context: int | None = _about(
        "tokens at which that happens; unset: when the model refuses", None, least=1, most=100000000
    )
    tools: tuple[str, ...] = _about("tools of your own for `cua ask`: names of entry points of the group k25.tools", ())
    mcp: Path | None = _about("mcp.json that names MCP servers whose tools `cua ask` may call", None)
    tool_images: Literal["auto", "tool", "user"] = _about(
        "images of tool results go in the tool message, or in a user message behind it", "auto"
    )

    max_steps: int = _about("limit on steps; 30 for `cua ask` unless set", 100, least=1, most=1000000)
    max_calls: int | None = _about("limit on tool calls of the whole run", None, least=1, most=1000000)
    max_time: float | None = _about(
        "limit on seconds of work; ends a call or a step that is going on", None, least=0.1, most=31536000
    )
    max_tokens: int | None = _about("limit on tokens of the whole run", None, least=1, most=1000000000000)
    max_cost: float | None = _about("limit on US dollars", None, least=1e-06, most=1000000000)
    runs_dir: Path | None = _about("where runs are recorded", None)
