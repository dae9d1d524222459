"""The OpenAPI document is true: requests made from it never crash the server, answers are as it says."""

import os
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import positive_data_acceptance

from model_runtime.server import make_app
from tests.model_runtime.fakes import FakeEngine, FakeProcessor


class LastingEngine(FakeEngine):
    """Schemathesis starts and stops the application with every request."""

    async def close(self, *, drain_s: float = 0.0) -> None:
        pass


APP = make_app(LastingEngine(), FakeProcessor())
SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", APP)


@pytest.mark.slow
@SCHEMA.include(path_regex="^/(v1|tokenize|detokenize|health|version|metrics)").parametrize()
@settings(
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "15")),
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    database=None,
)
def test_requests_made_from_the_document(case: Any) -> None:
    # what a schema cannot say, as that an image has to be one, makes requests fail that it allows
    case.call_and_validate(excluded_checks=[positive_data_acceptance])


def test_metrics_are_text() -> None:
    described = APP.openapi()["paths"]["/metrics"]["get"]["responses"]["200"]["content"]
    assert described == {"text/plain; version=1.0.0; charset=utf-8": {"schema": {"type": "string"}}}


def test_every_error_status_is_described() -> None:
    document = APP.openapi()
    answers = document["paths"]["/v1/chat/completions"]["post"]["responses"]
    assert {"200", "400", "401", "404", "413", "429", "500", "503", "504"} <= set(answers)
    assert "ChatRequest" in document["components"]["schemas"]
    body = document["paths"]["/v1/completions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/TextRequest"}
