"""Environments and suites of tasks by name: built-in ones, and entry points of other distributions.

    [project.entry-points."k25.envs"]
    robot = "my_package.robot:make_robot"     # called with an EnvRequest, returns an Env; or an EnvKind

    [project.entry-points."k25.suites"]
    chores = "my_package.chores:make_suite"   # called with options by name, returns a Suite, or tasks

The object behind a name is imported on first use, so that a broken distribution affects nothing else.
"""

import contextlib
import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.env import Env, EnvSpec, check_verbs
from envs.errors import EnvError, EnvSetupError, nearest
from envs.foreign import contained, describe_defect
from envs.secret_texts import HttpLogin
from envs.suite import Suite, suite_of

if TYPE_CHECKING:
    import asyncio
    from importlib import metadata

ENVS_GROUP = "k25.envs"
SUITES_GROUP = "k25.suites"
_OUR_ENVS = {
    "browser": "envs.browser.env:KIND",
    "desktop": "envs.desktop.env:KIND",
    "apps": "envs.suites.apps.env:KIND",
    "miniwob": "envs.suites.miniwob.env:KIND",
    "osworld": "envs.suites.osworld.providers:KIND",
    "webarena": "envs.suites.webarena.env:KIND",
}
_IN_A_BROWSER = frozenset({"browser", "apps", "miniwob", "webarena"})
_OUR_SUITES = {
    "apps": "envs.suites.apps.suite:make_suite",
    "miniwob": "envs.suites.miniwob.tasks:make_suite",
    "osworld": "envs.suites.osworld.tasks:make_suite",
    "webarena": "envs.suites.webarena.tasks:make_suite",
    "widesearch": "envs.suites.widesearch.tasks:make_suite",
    "webarena-lite": "envs.suites.webarena.lite:make_suite",
    "webarena-verified": "envs.suites.webarena.verified_tasks:make_suite",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvSecrets:
    """Secrets of an environment; never part of its spec, which is recorded.

    Attributes:
        masked_texts: Texts that must not be readable in screenshots and texts.
        http_logins: Logins for servers that require HTTP authentication.
    """

    masked_texts: tuple[str, ...] = field(default=(), repr=False)
    http_logins: tuple[HttpLogin, ...] = ()

    def make_env(self, spec: EnvSpec) -> Env:
        """Call `envs.registry.make_env` with these secrets."""
        return make_env(spec, masked_texts=self.masked_texts, http_logins=self.http_logins)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvRequest:
    """Request of a run for an environment that is made by name.

    Attributes:
        options: Options by name, as in an `EnvSpec` or a setting; string values are as the user typed them.
        files_dir: Folder below which the env saves files; None: the env chooses.
        masked_texts: Secrets that must not be readable in screenshots and texts.
        http_logins: Logins for servers that require HTTP authentication.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    files_dir: Path | None = None
    masked_texts: tuple[str, ...] = ()
    http_logins: tuple[HttpLogin, ...] = ()


MakeEnv = Callable[[EnvRequest], Env]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvKind:
    """Registered kind of environment.

    Attributes:
        make: Factory of an env that was not reset yet; a ValueError names the invalid option.
        options: Names of the accepted options; None: any, `make` validates them.
        shown: Options that the header of a run's record shows.
        masks_secrets: True if the env blacks `masked_texts` out of its screenshots itself.
        no_retry_reason: Called with the options; returns why `reset` does not undo the effects of an episode, in one
            clause, so that no episode is repeated there; "" if it does.
    """

    make: MakeEnv
    options: frozenset[str] | None = None
    shown: tuple[str, ...] = ()
    masks_secrets: bool = False
    no_retry_reason: Callable[[Mapping[str, Any]], str] = lambda options: ""

    def takes(self, option: str) -> bool:
        """Return True if it has an option of that name."""
        return self.options is None or option in self.options


def env_names() -> tuple[str, ...]:
    """Return the names of all environments, built-in ones first, without importing them."""
    return tuple(dict.fromkeys([*_OUR_ENVS, *(entry.name for entry in _entry_points(ENVS_GROUP))]))


def suite_names() -> tuple[str, ...]:
    """Return the names of all suites, built-in ones first, without importing them."""
    return tuple(dict.fromkeys([*_OUR_SUITES, *(entry.name for entry in _entry_points(SUITES_GROUP))]))


def find_env(name: str) -> EnvKind:
    """Return the environment kind registered under a name.

    Raises:
        EnvSetupError: If the environment does not exist, or its distribution is broken; one line gives the reason and
            the nearest name.
    """
    if name in _OUR_ENVS:
        module, _, attribute = _OUR_ENVS[name].partition(":")
        ours: EnvKind = getattr(importlib.import_module(module), attribute)
        return ours
    kind = _load(ENVS_GROUP, name, "environment", env_names())
    if isinstance(kind, EnvKind):
        return kind
    if not callable(kind):
        raise EnvSetupError(
            f"the environment {name!r} is a {type(kind).__name__}; expected an EnvKind, or a function that makes an "
            "Env from an EnvRequest"
        )
    return EnvKind(make=kind)


def starting_early(name: str | None, runner: "asyncio.Runner") -> contextlib.AbstractContextManager[None]:
    """Start the slow part of an environment that depends on no option, if there is one; it is stopped if unused.

    Args:
        name: Registered name; None if it is not known yet.
        runner: Runner of the loop in which the environment will be used.
    """
    if name not in _IN_A_BROWSER:
        return contextlib.nullcontext()
    from envs.playwright_driver import early_driver

    return early_driver(runner)


def find_env_for(options: Iterable[str]) -> str | None:
    """Return the first built-in environment that accepts all of these options; None if there is none."""
    wanted = tuple(options)
    return next((name for name in _OUR_ENVS if all(find_env(name).takes(option) for option in wanted)), None)


def make_env(
    spec: EnvSpec,
    *,
    files_dir: Path | None = None,
    masked_texts: tuple[str, ...] = (),
    http_logins: tuple[HttpLogin, ...] = (),
) -> Env:
    """Make an environment that was not reset yet.

    Args:
        spec: Name of the environment and its options.
        files_dir: See `EnvRequest`.
        masked_texts: See `EnvRequest`.
        http_logins: See `EnvRequest`.

    Raises:
        EnvSetupError: If the environment does not exist or has no such option, or a value is invalid.
    """
    kind = find_env(spec.name)
    for option in spec.options:
        if not kind.takes(option):
            raise EnvSetupError(
                f"the environment {spec.name!r} has no option {option!r}.{_nearest(option, kind.options or ())}"
            )
    request = EnvRequest(options=spec.options, files_dir=files_dir, masked_texts=masked_texts, http_logins=http_logins)
    try:
        env = kind.make(request)
    except ValueError as error:
        raise EnvSetupError(str(error)) from error
    check_verbs(env, spec.name)
    return env


def no_retry_reason(spec: EnvSpec) -> str:
    """Return why an episode in this environment cannot be played again from the same state; "" if it can."""
    try:
        return find_env(spec.name).no_retry_reason(spec.options)
    except EnvSetupError:  # the suite makes the env itself, or reset raises the same error
        return ""


def load_suite(name: str, **options: object) -> Suite:
    """Load a suite of tasks.

    Args:
        name: Registered name; or a Python file, `chores.py` or `chores.py:make_chores`, whose function (default:
            `make_suite`) returns a `Suite` or tasks. The file is executed.
        options: Arguments of the suite's function (for example a split or a data folder).

    Raises:
        EnvSetupError: If the suite does not exist, it is broken, or two of its tasks have the same identity.
    """
    file, _, function = name.partition(":")
    if file.endswith(".py"):
        make = _load_file(Path(file), function or "make_suite")
    elif name in _OUR_SUITES:
        module, _, attribute = _OUR_SUITES[name].partition(":")
        make = getattr(importlib.import_module(module), attribute)
    else:
        make = _load(SUITES_GROUP, name, "suite", suite_names())
    if not callable(make):
        raise EnvSetupError(
            f"the suite {name!r} is a {type(make).__name__}; expected a function that gives a Suite or tasks"
        )
    try:
        with contained():
            suite = make(**options)
            return suite if isinstance(suite, Suite) else suite_of(Path(file).stem, suite)
    except EnvError:
        raise
    except Exception as error:
        reason = str(error) if isinstance(error, TypeError | ValueError) else describe_defect(error)
        raise EnvSetupError(f"the suite {name!r} cannot be made: {reason}") from error


def _load_file(file: Path, function: str) -> object:
    """Import a Python file that the user named, and return one of its functions."""
    if not file.is_file():
        raise EnvSetupError(f"there is no file {str(file)!r}; expected a Python file with a function {function}()")
    spec = importlib.util.spec_from_file_location(f"_suite_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    if (folder := str(file.resolve().parent)) not in sys.path:
        sys.path.append(folder)  # modules in the same folder; last, so that they shadow no installed module
    try:
        with contained():
            spec.loader.exec_module(module)
    except Exception as error:
        raise EnvSetupError(f"{file} cannot be loaded: {describe_defect(error)}") from error
    if not hasattr(module, function):
        raise EnvSetupError(f"{file} has no function {function}(); name another one as {file}:FUNCTION")
    return getattr(module, function)


def _load(group: str, name: str, kind: str, known: Sequence[str]) -> object:
    """Load the object of an entry point."""
    entries = [entry for entry in _entry_points(group) if entry.name == name]
    if not entries:
        raise EnvSetupError(f"there is no {kind} {name!r}.{_nearest(name, known)}")
    if len({entry.value for entry in entries}) > 1:
        brings = " and ".join(sorted(_shown(entry) for entry in entries))
        raise EnvSetupError(f"the {kind} {name!r} is brought by {brings}; uninstall one of them")
    try:
        with contained():
            return entries[0].load()
    except Exception as error:
        reason = describe_defect(error)
        raise EnvSetupError(f"the {kind} {name!r} of {_shown(entries[0])} cannot be loaded: {reason}") from error


def _entry_points(group: str) -> "list[metadata.EntryPoint]":
    """Return all entry points of a group, cached per `sys.path`."""
    return _entry_points_on(group, tuple(sys.path))


@functools.lru_cache(maxsize=16)
def _entry_points_on(group: str, path: tuple[str, ...]) -> "list[metadata.EntryPoint]":
    """Return all entry points of a group; distributions whose metadata cannot be read are skipped."""
    from importlib import metadata  # 20 ms, which only names of other distributions need

    try:
        return list(metadata.entry_points(group=group))
    except (TypeError, ValueError, OSError, KeyError):  # the metadata of a distribution are invalid
        return [
            entry
            for distribution in metadata.distributions()
            for entry in _entry_points_of(distribution)
            if entry.group == group
        ]


def _entry_points_of(distribution: "metadata.Distribution") -> "Sequence[metadata.EntryPoint]":
    try:
        return tuple(distribution.entry_points)
    except (TypeError, ValueError, OSError, KeyError):
        return ()


def _shown(entry: "metadata.EntryPoint") -> str:
    """Return the origin of an entry point, such as `package 1.0 (module:name)`."""
    owner = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "an unknown distribution"
    return f"{owner} ({entry.value})"


def _nearest(name: str, choices: Iterable[str]) -> str:
    known = sorted(choices)
    guess = "".join(f" Did you mean {near!r}?" for near in nearest(name, known))
    return f"{guess} There are: {', '.join(known)}." if known else f"{guess} There are none."
