"""Every example is finished by the embedded model, in process, and verified."""

from pathlib import Path

import pytest

from cua.trajectory import load_run
from examples.example import Example, Expectation, load_example
from tests.examples.running import EXAMPLES, example_params, run_example


def test_there_are_enough_and_of_both_kinds() -> None:
    assert len(EXAMPLES) >= 10
    assert len({example.app.split()[0] for example in EXAMPLES if example.env == "desktop"}) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("example", example_params())
async def test_literal_finishes(example: Example, tmp_path: Path) -> None:
    result = await run_example(example, "literal", tmp_path)
    assert (result.end.status, result.end.score) == ("succeeded", 1.0), result.end.reason
    assert result.run_dir is not None
    record = load_run(Path(result.run_dir))
    assert [step.index for step in record.steps] == list(range(1, result.num_steps + 1))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_nothing_is_verified_before_anything_was_done(example: Example, tmp_path: Path) -> None:
    met = example.make_task(tmp_path).check(None)
    assert not any(met.values())
    assert met or example.expect.clipboard is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('page = "a.html"\ninstruction = "x"', "expect"),
        ('page = "a.html"\ninstruction = "x"\n[expect]', "would be verified"),
        ('page = "a.html"\ninstruction = "x"\ncolour = "red"\n[expect]\nanswer = "1"', "colour"),
        ('page = "a.html"\ninstruction = "x"\n[expect]\nanswr = "1"', "answr"),
    ],
)
def test_a_wrong_example_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=message):
        load_example(path)


def test_answers_are_compared_without_regard_to_spaces(tmp_path: Path) -> None:
    example = Example(name="x", instruction="x", expect=Expectation(answer="4471 8820"))
    task = example.make_task(tmp_path)
    assert task.check("Customer number: 44718820 ") == {"answer": True}
    assert task.check("4471 882") == {"answer": False}
