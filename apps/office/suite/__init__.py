"""The suite `office`: document tasks, each with a check by code, a correct solution and a near miss."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apps.office.suite.case import OfficeCase
    from envs.suite import Suite

REVISION = "2"
PREFIX = "office/"


def all_cases() -> "tuple[OfficeCase, ...]":
    """Return all cases in order, including those with missing requirements."""
    from apps.office.suite.calc_kinds import calc_cases
    from apps.office.suite.impress_kinds import impress_cases
    from apps.office.suite.pages import page_cases
    from apps.office.suite.sheets import sheet_cases
    from apps.office.suite.shipped import shipped_cases
    from apps.office.suite.tables import table_cases
    from apps.office.suite.words import word_cases
    from apps.office.suite.writer_kinds import writer_cases

    own = (*word_cases(), *sheet_cases(), *table_cases(), *page_cases())
    kinds = (*calc_cases(), *writer_cases(), *impress_cases())
    return (*own, *kinds, *shipped_cases())


def make_suite() -> "Suite":
    """Make the suite of document tasks for agents with tools; cases with missing files are left out with the reason."""
    from apps.office.suite.case import OfficeTask
    from envs.suite import Suite

    lacking = {case.name: case.lacks() for case in all_cases()}
    cases = {f"{PREFIX}{case.name}": case for case in all_cases() if not lacking[case.name]}
    return Suite(
        name="office",
        about=f"Documents: {len(cases)} tasks to make, edit, extract, convert, reconcile and annotate; checked by code",
        task_ids=tuple(cases),
        make_task=lambda task_id, seed: OfficeTask(cases[task_id], task_id),
        revision=REVISION,
        max_steps=30,
        max_time_s=900.0,
        agents=("tools", "swarm"),
        left_out="; ".join(f"{name}: {reason}" for name, reason in lacking.items() if reason),
    )
