"""Checks of `cua doctor` and `cua eval SUITE --doctor`: test everything that a run needs, change nothing."""

import asyncio
from collections.abc import Mapping

from apps.office.libreoffice import find_soffice
from apps.setup.checks import (
    check_backends,
    check_clock,
    check_command,
    check_ocr,
    check_package,
    check_python,
    check_runs_folder,
    check_terminal,
)
from apps.setup.click_test import measure_clicks
from apps.setup.command import Say
from apps.setup.install import browser_rows, try_browser, try_desktop
from apps.setup.office import check_fonts
from apps.setup.report import DoctorRow, Level, SetupReport
from cua.assemble import make_secrets, make_settings_model
from cua.config import Settings, load_settings
from cua.errors import ConfigError
from cua.models.endpoint import ProbeReport, probe
from cua.trajectory import default_runs_dir
from envs import EnvError

_MODEL_TIMEOUT_S = 60.0  # a model that loads answers late; a person waits


async def run_doctor(say: Say = print, *, model: str | None = None, click_test: bool = False) -> SetupReport:
    """Check Python, names, browser, display, OCR, sandbox, fonts, model endpoint, record folder, terminal and clock.

    Args:
        say: Called with each line of progress.
        model: Model whose endpoint is tested; None uses the configured one.
        click_test: True to also click drawn targets in a browser and on a display and measure the error.

    Returns:
        One row for each check; `exit_code` depends on the worst level.
    """
    rows = [check_python(), check_command(), check_package()]
    try:
        settings = load_settings({"model": model} if model else {}).settings
    except ConfigError as error:
        rows.append(DoctorRow(name="config", level="fail", actual=str(error), fix="cua config show"))
        settings = Settings()
    say("trying the browser and the display")
    trial, display_row = await asyncio.gather(try_browser(), try_desktop())
    rows += [*browser_rows(trial), display_row]
    rows.append(await asyncio.to_thread(check_ocr, is_needed=settings.has_embedded_model))
    rows.append(await asyncio.to_thread(check_backends))
    if find_soffice() is not None:
        rows.append(await asyncio.to_thread(check_fonts))
    rows.append(await check_model(settings, say))
    rows += [check_runs_folder(settings.runs_dir or default_runs_dir()), check_terminal(), check_clock()]
    if click_test:
        rows += await measure_clicks(say, with_browser=trial.verdict.works, with_desktop=display_row.level == "ok")
    return SetupReport(rows=tuple(rows))


async def run_osworld_doctor(
    say: Say, suite_options: Mapping[str, object], settings: Mapping[str, object]
) -> SetupReport:
    """Check everything that a run on OSWorld needs; starts a guest of the provider `local`.

    Args:
        say: Called with each line of progress.
        suite_options: Options of the suite; its environment options select the guest.
        settings: Settings of the agent, for its model.

    Returns:
        One row for each check; `exit_code` depends on the worst level.
    """
    from envs.suites.osworld.doctor import OsworldDoctor

    try:
        doctor = OsworldDoctor(suite_options)
    except (EnvError, ValueError) as error:
        return _wrong_options(error)
    rows = await doctor.run(say)
    try:
        resolved = load_settings(dict(settings)).settings
    except ConfigError as error:
        return SetupReport(
            rows=(*rows, DoctorRow(name="model", level="fail", actual=str(error), fix="cua config show"))
        )
    return SetupReport(rows=(*rows, await check_model(resolved, say)))


async def run_webarena_doctor(
    say: Say, suite_options: Mapping[str, object], settings: Mapping[str, object], *, suite_name: str = "webarena"
) -> SetupReport:
    """Check everything that a run on WebArena needs; the sites are not changed, except for a login.

    Args:
        say: Called with each line of progress.
        suite_options: Options of the suite.
        settings: Settings of the agent, for its model.
        suite_name: `webarena`, or `webarena-verified`, which needs no judge.

    Returns:
        One row for each check; `exit_code` depends on the worst level.
    """
    from envs.suites.webarena.doctor import WebArenaDoctor

    try:
        doctor = WebArenaDoctor(suite_options, suite_name)
    except (EnvError, ValueError) as error:
        return _wrong_options(error)
    try:
        resolved = load_settings(dict(settings)).settings
        logins = make_secrets(resolved).logins
    except ConfigError as error:
        return SetupReport(rows=(DoctorRow(name="settings", level="fail", actual=str(error), fix="cua config show"),))
    return SetupReport(rows=(*await doctor.run(say, logins), await check_model(resolved, say)))


def _wrong_options(error: Exception) -> SetupReport:
    return SetupReport(rows=(DoctorRow(name="options", level="fail", actual=str(error), fix="cua eval run --help"),))


async def check_model(settings: Settings, say: Say) -> DoctorRow:
    """Send a short question to the model of these settings."""
    if settings.has_embedded_model or settings.model.startswith("scripted:"):
        return DoctorRow(name="model", level="ok", actual=f"{settings.model}, inside this program: no endpoint to try")
    say(f"asking {settings.model} a tiny question")
    try:
        model = make_settings_model(settings)
    except ConfigError as error:
        return DoctorRow(name="model", level="fail", actual=str(error), fix="cua config show")
    try:
        async with asyncio.timeout(_MODEL_TIMEOUT_S):
            report = await probe(model)
    except TimeoutError:
        report = ProbeReport(ok=False, error=f"no answer within {_MODEL_TIMEOUT_S:g} s", retryable=True)
    finally:
        await model.close()
    return _model_row(settings, report)


def _model_row(settings: Settings, report: ProbeReport) -> DoctorRow:
    if not report.ok:
        address = settings.base_url or "the default endpoint"
        actual = f"{settings.model} at {address}: {report.error}"
        fix = "start the server and type cua doctor again" if report.retryable else "cua config show"
        return DoctorRow(name="model", level="fail", actual=actual, expected="an answer", fix=fix)
    actual = f"{report.model} answered in {report.latency_s:.1f} s"
    if not report.accepts_images:
        actual += f", but refuses images: {report.error}"
    elif not report.saw_image:
        actual += f", but did not name the colour of a red image ({report.answer!r})"
    if not report.reports_usage:
        actual += "; it counts no tokens, so --max-tokens and --max-cost cannot work"
    if report.accepts_images and report.saw_image:
        return DoctorRow(name="model", level="ok" if report.reports_usage else "warn", actual=actual)
    level: Level = "warn" if report.accepts_images else "fail"
    return DoctorRow(
        name="model", level=level, actual=actual, expected="a model that sees images", fix="choose another --model"
    )
