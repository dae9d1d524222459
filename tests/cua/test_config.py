import re
import typing
from pathlib import Path

import pytest

from cua.config import FIELDS, Settings, load_settings
from cua.errors import ConfigError


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "k25.toml", tmp_path / "config.toml"


def load(files: tuple[Path, Path], flags: dict[str, object] | None = None, **environ: str):  # type: ignore[no-untyped-def]
    return load_settings(flags, environ=environ, project_file=files[0], user_file=files[1])


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("max_steps", ("-1", "0", "10000000")),
        ("max_time", ("-1", "0", "nan", "inf", "-inf", "1e99")),
        ("max_tokens", ("0", "-5")),
        ("max_cost", ("0", "-0.1", "nan")),
        ("max_images", ("0", "-3", "1000")),
        ("max_output_tokens", ("0", "-1")),
        ("max_context", ("0", "-1")),
        ("max_retries", ("-1", "100000")),
        ("request_timeout", ("0", "-1", "nan", "inf")),
        ("cell_timeout", ("0", "-1", "nan", "1e9")),
        ("device_scale", ("0", "-1", "nan", "1000")),
        ("monitor", ("-1", "1000")),
        ("temperature", ("-0.1", "nan", "inf", "99")),
        ("top_p", ("0", "-1", "1.1", "nan")),
    ],
)
def test_numbers_that_make_no_sense_are_refused_wherever_they_come_from(
    files: tuple[Path, Path], name: str, values: tuple[str, ...]
) -> None:
    project, user = files
    for value in values:
        with pytest.raises(ConfigError, match=f"^--{name.replace('_', '-')} is .*, expected a number from .* to "):
            load(files, {name: value})
        with pytest.raises(ConfigError, match=f"^K25_{name.upper()}: {name} is .*expected a number from"):
            load_settings(environ={f"K25_{name.upper()}": value}, project_file=project, user_file=user)
        project.write_text(f"{name} = {value}\n")
        with pytest.raises(ConfigError, match=f"{project.name}: {name} is .*expected a number from"):
            load(files)
        project.unlink()


def test_every_number_has_a_range() -> None:
    hints = typing.get_type_hints(Settings).items()
    numbers = [name for name, hint in hints if {int, float} & {hint, *typing.get_args(hint)}]
    assert len(numbers) > 10
    assert [name for name in numbers if FIELDS[name].metadata["least"] is None] == []


def test_defaults(files: tuple[Path, Path]) -> None:
    resolved = load(files)
    assert resolved.settings == Settings()
    assert set(resolved.sources.values()) == {"default"}


def test_flag_over_environment_over_project_over_user(files: tuple[Path, Path]) -> None:
    project, user = files
    user.write_text("max_steps = 1\nmax_images = 1\nmodel = 'user'\nviewport = '10x10'\n")
    project.write_text("max_steps = 2\nmax_images = 2\nmodel = 'project'\n")
    resolved = load(files, {"max_steps": 4, "max_time": None}, K25_MAX_STEPS="3", K25_MAX_IMAGES="3")
    settings = resolved.settings
    assert (settings.max_steps, settings.max_images, settings.model, settings.viewport) == (4, 3, "project", "10x10")
    assert [resolved.sources[name] for name in ("max_steps", "max_images", "model", "viewport", "max_time")] == [
        "flag",
        "K25_MAX_IMAGES",
        str(project),
        str(user),
        "default",
    ]


def test_the_standard_variables_are_read_and_ours_win(files: tuple[Path, Path]) -> None:
    resolved = load(files, OPENAI_BASE_URL="http://a", OPENAI_API_KEY="k")
    assert (resolved.settings.base_url, resolved.settings.api_key) == ("http://a", "k")
    assert load(files, OPENAI_BASE_URL="http://a", K25_BASE_URL="http://b").settings.base_url == "http://b"


def test_kinds_are_converted(files: tuple[Path, Path]) -> None:
    settings = load(
        files,
        K25_HEADED="yes",
        K25_MAX_TIME="1.5",
        K25_ALLOW_DOMAINS="a.com, b.com",
        K25_POLICY="~/p.toml",
        K25_BROWSER="x",
    ).settings
    assert (settings.headed, settings.max_time, settings.allow_domains) == (True, 1.5, ("a.com", "b.com"))
    assert settings.policy == Path.home() / "p.toml"


def test_other_variables_of_ours_are_no_settings(files: tuple[Path, Path]) -> None:
    """All that the sources read, such as the judge's key, whatever commands are run meanwhile."""
    root = Path(__file__).parents[2]
    sources = [file for name in ("apps", "cua", "envs", "visual_tools") for file in (root / name).rglob("*.py")]
    named = {name for file in sources for name in re.findall(r'"(K25_[A-Z0-9_]+)"', file.read_text("utf-8"))}
    others = {name for name in named if name.removeprefix("K25_").lower() not in FIELDS} - {"K25_CLIPBOARD"}  # an atom
    assert {"K25_JUDGE_API_KEY", "K25_NANO", "K25_XVFB"} <= others
    assert load(files, **dict.fromkeys(others, "x")).settings == load(files).settings


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"K25_MAX_STPES": "1"}, "there is no setting 'max_stpes'; did you mean 'max_steps'"),
        ({"K25_ENV": "dekstop"}, "expected one of browser, desktop, .*; did you mean 'desktop'"),
        ({"K25_MAX_STEPS": "many"}, "K25_MAX_STEPS: max_steps is 'many', expected a whole number"),
        ({"K25_MAX_STEPS": "1.5"}, "expected a whole number"),
        ({"K25_MAX_TIME": "soon"}, "expected a number"),
        ({"K25_HEADED": "maybe"}, "expected true or false"),
        ({"K25_API_KEY": "g\u00f6\u00f6d"}, "K25_API_KEY: api_key has a character that no HTTP header can carry"),
        ({"K25_API_KEY": "one\ntwo"}, "^((?!two).)*$"),  # its value is not shown
    ],
)
def test_wrong_values_name_the_source_and_what_was_expected(
    files: tuple[Path, Path], environ: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load(files, **environ)


@pytest.mark.parametrize("content", ["maxsteps = 3", "max_steps = ", "allow_domains = [1]", "model = 5", "headed = 2"])
def test_a_wrong_file_is_refused(files: tuple[Path, Path], content: str) -> None:
    files[0].write_text(content)
    with pytest.raises(ConfigError, match=r"k25\.toml"):
        load(files)
