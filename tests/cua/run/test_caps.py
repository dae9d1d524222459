import pytest

from cua.messages import Usage
from cua.run.budget import Caps

MUCH = Usage(input_tokens=900, output_tokens=100, cost_usd=2.5)


@pytest.mark.parametrize(
    ("caps", "cap"),
    [
        (Caps(max_steps=5), "steps"),
        (Caps(max_steps=6), None),
        (Caps(max_steps=None), None),
        (Caps(max_steps=6, max_time_s=30), "time"),
        (Caps(max_steps=6, max_time_s=30.5), None),
        (Caps(max_steps=6, max_tokens=1000), "tokens"),
        (Caps(max_steps=6, max_tokens=1001), None),
        (Caps(max_steps=6, max_cost_usd=2.5), "cost"),
        (Caps(max_steps=6, max_cost_usd=2.6), None),
    ],
)
def test_a_cap_is_reached_exactly_at_its_value(caps: Caps, cap: str | None) -> None:
    reached = caps.reached(num_steps=5, time_s=30.0, usage=MUCH)
    assert (reached[0] if reached else None) == cap


def test_an_unknown_price_with_a_cost_cap_is_a_cap_that_says_what_to_do() -> None:
    reached = Caps(max_cost_usd=1).reached(num_steps=0, time_s=0, usage=Usage(cost_usd=None))
    assert reached is not None
    assert reached[0] == "cost"
    assert "--prices" in reached[1]


def test_usage_adds_up_and_one_unknown_price_makes_the_sum_unknown() -> None:
    assert Usage(input_tokens=1, output_tokens=2, cached_tokens=3, cost_usd=0.5) + Usage(
        input_tokens=10, output_tokens=20, cached_tokens=30, cost_usd=0.25
    ) == Usage(input_tokens=11, output_tokens=22, cached_tokens=33, cost_usd=0.75)
    assert (Usage(cost_usd=1.0) + Usage(cost_usd=None)).cost_usd is None
