import pytest

from cua.errors import ConfigError
from cua.messages import Sampling
from cua.models.endpoint import Endpoint, automatic_sampling, preset_sampling

MOONSHOT = Endpoint(base_url="https://api.moonshot.ai/v1", api_key="k")
OWN = Endpoint(base_url="http://localhost:8000/v1", api_key="none")


@pytest.mark.parametrize(
    ("name", "endpoint", "sampling"),
    [
        ("kimi-k2.5", MOONSHOT, Sampling(temperature=1.0, top_p=0.95)),
        (
            "kimi-k2.5-instant",
            MOONSHOT,
            Sampling(temperature=0.6, top_p=0.95, extra_body={"thinking": {"type": "disabled"}}),
        ),
        (
            "Kimi-K2.5-Instant",
            OWN,
            Sampling(temperature=0.6, top_p=0.95, extra_body={"chat_template_kwargs": {"thinking": False}}),
        ),
        ("osworld", OWN, Sampling(temperature=0.0, top_p=0.95, max_tokens=4096)),
        ("webarena", OWN, Sampling(temperature=0.1)),
        ("none", MOONSHOT, Sampling()),
    ],
)
def test_presets(name: str, endpoint: Endpoint, sampling: Sampling) -> None:
    assert preset_sampling(name, endpoint) == sampling


def test_unknown_preset_names_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        preset_sampling("oswrld", OWN)
    assert str(caught.value) == (
        "there is no preset 'oswrld'. Did you mean 'osworld'? "
        "Known: kimi-k2.5, kimi-k2.5-instant, none, osworld, webarena."
    )


@pytest.mark.parametrize(
    ("model", "endpoint", "sampling"),
    [
        ("kimi-k2.5", MOONSHOT, Sampling(temperature=1.0, top_p=0.95)),
        (
            "kimi-k2.5",
            Endpoint(base_url="https://API.MOONSHOT.CN/v1", api_key="k"),
            Sampling(temperature=1.0, top_p=0.95),
        ),
        ("moonshotai/Kimi-K2.5", MOONSHOT, Sampling(temperature=1.0, top_p=0.95)),
        ("kimi-k2.5", OWN, Sampling()),
        ("moonshot-v1-8k", MOONSHOT, Sampling()),
        ("gpt-x", OWN, Sampling()),
    ],
)
def test_automatic_choice(model: str, endpoint: Endpoint, sampling: Sampling) -> None:
    assert automatic_sampling(model, endpoint) == sampling
