"""Token prices in US dollars per million tokens, from a user's file. Prices change, so none are built in.

The file is JSON with one entry per model id; `*` applies to every other model of the endpoint:

    {"kimi-k2.5": {"input": 1.0, "cached_input": 0.5, "output": 2.0}, "*": {"input": 0, "output": 0}}

Its path is given by the setting or by `K25_PRICES`. Models on this machine are free. Any other model
without an entry has an unknown cost, which a cost cap reports.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from cua.errors import ConfigError, name_choices
from cua.json_text import read_json

_Usd = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Price(BaseModel):
    """Price in US dollars per million tokens.

    Attributes:
        input: Price of request tokens.
        output: Price of reply tokens, including reasoning.
        cached_input: Price of request tokens that the server had in its cache; None for the price of `input`.
        source: Source and date of the price; for people.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: _Usd
    output: _Usd
    cached_input: _Usd | None = None
    source: str = ""

    def cost_usd(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> float:
        """Return the cost of one reply; `cached_tokens` is the cached part of `input_tokens`."""
        cached = min(cached_tokens, input_tokens)
        cached_price = self.input if self.cached_input is None else self.cached_input
        return ((input_tokens - cached) * self.input + cached * cached_price + output_tokens * self.output) / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTable:
    """Prices by model id."""

    prices: Mapping[str, Price] = field(default_factory=dict)

    def find(self, model: str) -> Price | None:
        """Return the price of a model, else that for `*`, else None (unknown)."""
        return self.prices.get(model) or self.prices.get("*")


def load_prices(path: str | Path | None = None, environ: Mapping[str, str] | None = None) -> PriceTable:
    """Load the price file.

    Args:
        path: Price file; `K25_PRICES` by default. Without both the table is empty.
        environ: Environment variables; `os.environ` by default.

    Raises:
        ConfigError: If the file cannot be read, or contains anything but prices.
    """
    chosen = path or (os.environ if environ is None else environ).get("K25_PRICES")
    if not chosen:
        return PriceTable()
    try:
        data = read_json(Path(chosen).expanduser().read_text(encoding="utf-8"))
        return PriceTable(prices=TypeAdapter(dict[str, Price]).validate_python(data))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the price file {chosen} cannot be read: {error}") from error
    except ValidationError as error:
        raise ConfigError(f"the price file {chosen} is wrong: {_first_problem(error)}") from None
    except ValueError as error:
        raise ConfigError(f"the price file {chosen} is not JSON: {error}") from error


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    location = " > ".join(str(step) for step in first["loc"])
    hint = name_choices(str(first["loc"][-1]), Price.model_fields) if first["type"] == "extra_forbidden" else ""
    return f"{location}: {first['msg']}.{hint}" if location else f"{first['msg']}."
