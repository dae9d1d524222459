"""The suite `office`: tasks on documents, each with a check by code, a solution, and one that misses by little."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apps.office.suite.case import Case
    from envs.suite import Suite

REVISION = "1"
PREFIX = "office/"


def all_cases() -> "tuple[Case, ...]":
    """All cases in order."""
    from apps.office.suite.pages import page_cases
    from apps.office.suite.sheets import sheet_cases
    from apps.office.suite.tables import table_cases
    from apps.office.suite.words import word_cases

    return (*word_cases(), *sheet_cases(), *table_cases(), *page_cases())


def make_suite() -> "Suite":
    """Tasks on documents, for agents with tools."""
    from apps.office.suite.case import OfficeTask
    from envs.suite import Suite

    cases = {f"{PREFIX}{case.name}": case for case in all_cases()}
    return Suite(
        name="office",
        about=f"Documents: {len(cases)} tasks to make, edit, extract, convert, reconcile and annotate; checked by code",
        task_ids=tuple(cases),
        make_task=lambda task_id, seed: OfficeTask(cases[task_id], task_id),
        revision=REVISION,
        max_steps=30,
        max_time_s=900.0,
        agents=("tools", "swarm"),
    )
