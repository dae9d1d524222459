"""Sampling settings by name, and the one that a model needs to work at all.

Source: the model card's recommendations for Kimi K2.5 (thinking 1.0 / 0.95, instant 0.6 / 0.95), and the
settings of the published OSWorld and WebArena runs.
"""

from cua.errors import ConfigError, name_choices
from cua.messages import Sampling
from cua.models.endpoint import Endpoint

THINKING_OFF_SELF_HOSTED = {"chat_template_kwargs": {"thinking": False}}
THINKING_OFF_MOONSHOT = {"thinking": {"type": "disabled"}}

PRESETS: dict[str, Sampling] = {
    "kimi-k2.5": Sampling(temperature=1.0, top_p=0.95),
    "kimi-k2.5-instant": Sampling(temperature=0.6, top_p=0.95),
    "osworld": Sampling(temperature=0.0, top_p=0.95, max_tokens=4096),
    "webarena": Sampling(temperature=0.1),
    "none": Sampling(),
}
"""`osworld` and `webarena` work on servers of one's own only: Moonshot's refuse these temperatures."""


def preset_sampling(name: str, endpoint: Endpoint) -> Sampling:
    """Look a preset up.

    Args:
        name: A key of `PRESETS`.
        endpoint: Decides how thinking is turned off: Moonshot's own field, or the chat template's.

    Returns:
        The settings.

    Raises:
        ConfigError: There is no such preset; the text names the nearest.
    """
    sampling = PRESETS.get(name.strip().lower())
    if sampling is None:
        raise ConfigError(f"there is no preset {name!r}.{name_choices(name, PRESETS)}")
    if sampling is not PRESETS["kimi-k2.5-instant"]:
        return sampling
    extra = THINKING_OFF_MOONSHOT if endpoint.is_moonshot else THINKING_OFF_SELF_HOSTED
    return Sampling(temperature=sampling.temperature, top_p=sampling.top_p, extra_body=extra)


def automatic_sampling(model: str, endpoint: Endpoint) -> Sampling:
    """The default sampling: the thinking preset for K2.5 at Moonshot, else nothing is sent."""
    is_k25 = model.lower().rpartition("/")[2].startswith("kimi-k2.5")
    return PRESETS["kimi-k2.5" if is_k25 and endpoint.is_moonshot else "none"]
