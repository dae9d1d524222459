import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cua.errors import ConfigError
from cua.messages import Sampling
from cua.models import ModelSettings, make_model
from cua.models.gate import EndpointGate, RetryPolicy
from cua.models.make import FallbackModel, endpoint_options
from cua.models.openai_compat import OpenAICompatModel, OpenAICompatOptions
from cua.models.prices import Price, PriceTable
from cua.models.scripted import ScriptedModel
from cua.models.wire import ImageFormat

LOCAL = "http://127.0.0.1:8000/v1"
MOONSHOT = "https://api.moonshot.ai/v1"


def test_settings_become_options(tmp_path: Path) -> None:
    prices = tmp_path / "prices.json"
    prices.write_text('{"m": {"input": 1, "output": 2}}')
    model = make_model(
        "m",
        ModelSettings(
            base_url=LOCAL,
            api_key="k",
            preset="osworld",
            image_format="webp:75",
            streaming=False,
            connect_timeout_s=1,
            idle_timeout_s=2,
            timeout_s=3,
            max_retries=4,
            prices_file=str(prices),
        ),
    )
    assert isinstance(model, OpenAICompatModel)
    assert model.name == "m"
    assert model.options == OpenAICompatOptions(
        model="m",
        base_url=LOCAL,
        api_key="k",
        sampling=Sampling(temperature=0.0, top_p=0.95, max_tokens=4096),
        image_format=ImageFormat(kind="webp", quality=75),
        streaming=False,
        connect_timeout_s=1,
        idle_timeout_s=2,
        timeout_s=3,
        retry=RetryPolicy(max_retries=4),
        prices=PriceTable(prices={"m": Price(input=1, output=2)}),
    )


@pytest.mark.parametrize(
    ("name", "settings", "sampling"),
    [
        ("m", ModelSettings(base_url=LOCAL), Sampling()),
        ("m", ModelSettings(base_url=LOCAL, temperature=0.0, max_tokens=9), Sampling(temperature=0.0, max_tokens=9)),
        ("kimi-k2.5", ModelSettings(base_url=MOONSHOT, api_key="k"), Sampling(temperature=1.0, top_p=0.95)),
        (
            "kimi-k2.5",
            ModelSettings(base_url=MOONSHOT, api_key="k", temperature="omit", top_p="omit"),
            Sampling(),
        ),
        (
            "kimi-k2.5",
            ModelSettings(base_url=MOONSHOT, api_key="k", preset="kimi-k2.5-instant", top_p=0.5),
            Sampling(temperature=0.6, top_p=0.5, extra_body={"thinking": {"type": "disabled"}}),
        ),
    ],
)
def test_sampling(name: str, settings: ModelSettings, sampling: Sampling) -> None:
    model = make_model(name, settings)
    assert isinstance(model, OpenAICompatModel)
    assert model.options.sampling == sampling


def test_scripted(tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    path.write_text('"ok"')
    model = make_model(f"scripted:{path}")
    assert isinstance(model, ScriptedModel)
    assert model.name == f"scripted:{path}"


def test_fallback(tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    path.write_text('"ok"')
    model = make_model("m", ModelSettings(base_url=LOCAL, fallback=f"scripted:{path}"))
    assert isinstance(model, FallbackModel)
    assert isinstance(model.primary, OpenAICompatModel)
    assert isinstance(model.fallback, ScriptedModel)


@pytest.mark.parametrize(
    ("name", "settings", "complaint"),
    [
        ("m", ModelSettings(), "no model endpoint is configured: set OPENAI_BASE_URL (and OPENAI_API_KEY where the "
         "server wants a key), or a model that runs on this machine: --model literal or --model nano"),
        ("", ModelSettings(base_url=LOCAL),
         "the model has no name: give --model ID, or --model literal for the embedded one"),
        ("scripted", ModelSettings(), "--model scripted needs a file of recorded replies: scripted:FILE"),
        ("m", ModelSettings(base_url=LOCAL, temperature=2.5), "temperature is 2.5; expected a number from 0 to 2"),
        ("m", ModelSettings(base_url=LOCAL, temperature=float("nan")),
         "temperature is nan; expected a number from 0 to 2"),
        ("m", ModelSettings(base_url=LOCAL, top_p=-1.0), "top_p is -1; expected a number from 0 to 1"),
        ("m", ModelSettings(base_url=LOCAL, max_tokens=0), "max_tokens is 0; expected a number from 1 to 1e+07"),
        ("m", ModelSettings(base_url=LOCAL, max_retries=-1), "max_retries is -1; expected a number from 0 to 1000"),
        ("m", ModelSettings(base_url=LOCAL, timeout_s=0), "timeout_s is 0; expected a number from 0.001 to 86400"),
    ],
)  # fmt: skip
def test_wrong_settings(name: str, settings: ModelSettings, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_model(name, settings)
    assert str(caught.value) == complaint


def test_settings_hide_the_key() -> None:
    assert "sk-1" not in repr(ModelSettings(api_key="sk-1"))


def test_making_a_model_loads_nothing_heavy() -> None:
    code = (
        "import sys; from cua.models import make_model, ModelSettings; heavy = {'openai', 'httpx2', 'httpx', "
        "'starlette', 'uvicorn', 'cv2', 'rapidocr', 'onnxruntime'}; print(sorted(heavy & set(sys.modules)));"
        f"make_model('m', ModelSettings(base_url={LOCAL!r})); print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "[]"]


def test_models_at_endpoints_are_opened_again_elsewhere_and_others_are_not() -> None:
    settings = ModelSettings(base_url="http://127.0.0.1:9/v1", api_key="sk-test", temperature=0.5)
    model = make_model("one", settings)
    (options,) = endpoint_options(model)
    assert (options.model, options.base_url, options.api_key) == ("one", "http://127.0.0.1:9/v1", "sk-test")
    assert "sk-test" not in repr(options)
    assert OpenAICompatModel(pickle.loads(pickle.dumps(options))).endpoint == model.endpoint  # type: ignore[attr-defined]
    with_fallback = make_model("one", replace(settings, fallback="two"))
    assert [one.model for one in endpoint_options(with_fallback)] == ["one", "two"]
    assert endpoint_options(make_model("one", replace(settings, fallback="baseline:null"))) == ()
    assert endpoint_options(make_model("baseline:null")) == ()
    assert endpoint_options(OpenAICompatModel(options, gate=EndpointGate())) == ()
