"""How a run is taken up again without doing anything twice, and without holding every picture."""

from dataclasses import replace

from cua.step import Step
from cua.trajectory.run_record import RunRecord, interrupted_step


def resume_steps(record: RunRecord) -> tuple[tuple[Step, ...], str | None]:
    """The steps to go on from.

    Actions that were possibly carried out when the run broke off are not repeated: their step is kept
    with an error that tells the model that the outcome is unknown. A reply that led to no action is
    dropped, since the screen may have changed meanwhile: the model is asked again.

    Args:
        record: What `load_run` read, before `TrajectoryWriter.reopen`.

    Returns:
        The steps, and one line for the operator on what happened to the unfinished step (None when
        there was none).
    """
    pending = record.pending
    if pending is None or (record.result and not pending.may_have_acted):
        return record.steps, None
    step = interrupted_step(pending)
    if step:
        names = ", ".join(type(action).__name__ for action in step.actions) or "nothing"
        return (
            (*record.steps, step),
            f"step {step.index} broke off while its actions ({names}) were being carried out; they are not repeated",
        )
    if pending.reply:
        return record.steps, f"step {pending.index} broke off before its actions; the model is asked again"
    return record.steps, f"step {pending.index} broke off before the model answered; it is asked again"


def forget_picture(step: Step) -> Step:
    """The step without its picture, which stays on disk: for the list that a long run keeps in memory."""
    if not step.observation.screenshot:
        return step
    return replace(step, observation=replace(step.observation, screenshot=b""))
