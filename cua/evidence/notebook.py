"""Conversion of a run to a Jupyter notebook: question, reasoning, cells with their outputs, answer."""

import base64
from collections.abc import Iterator, Mapping

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cua.errors import TrajectoryError
from cua.json_text import Json, JsonMapping
from cua.messages import ImagePart, TextPart
from cua.step import CallOutcome, ToolStep
from cua.tools.kernel_tools import PNG
from cua.trajectory.run_record import RunRecord


class CellData(BaseModel):
    """Fields that `cua.tools.kernel_tools.to_tool_result` writes; empty for a call that ran no code.

    Attributes:
        kind: `ipython`, `shell` or `service` (see `to_tool_result`); "" for a call that ran no code.
        code: Code of the notebook's cell.
        status: Status at the end of the cell.
        text: Printed text.
        outputs: Outputs in nbformat's format, images given by their index.
        execution_count: Number of the cell.
        files_written: Files that the cell created or changed.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    kind: str = ""
    code: str = ""
    status: str = ""
    text: str = ""
    outputs: tuple[Json, ...] = ()
    execution_count: int | None = Field(default=None, ge=0)
    files_written: tuple[str, ...] = ()


def cell_data(outcome: CallOutcome) -> CellData:
    """Parse the fields of a call's result.

    Raises:
        TrajectoryError: If they are damaged.
    """
    try:
        return CellData.model_validate(dict(outcome.result.data))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise TrajectoryError(f"the record of call {outcome.number} is damaged: {field}: {first['msg']}") from error


SETUP = "setup"
"""Tag of the first cell, which changes to the folder with the files; a verification of the run skips it."""

_INSIDE_IMPORT = "from visual_tools.sandbox import inside"


def make_notebook(record: RunRecord) -> Json:
    """Build the notebook, nbformat 4, of a tool-using run that was loaded with its images."""
    cells: list[Json] = []
    for number, exchange in enumerate(record.exchanges):
        cells.append(
            _markdown("\n\n".join(part.text.strip() for part in exchange.question if isinstance(part, TextPart)))
        )
        cells += [_code("%cd files", tags=[SETUP])] if number == 0 else []
        for step in exchange.steps:
            cells += _of_step(step)
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
            "language_info": {"name": "python"},
            "cua": {"versions": dict(record.header.versions)},
        },
        "cells": [{**cell, "id": f"cell-{position}"} for position, cell in enumerate(cells)],
    }


def code_of(outcome: CallOutcome) -> str | None:
    """Return the notebook cell for a call; None for a call that ran no code."""
    data = cell_data(outcome)
    match data.kind:
        case "ipython":
            return data.code
        case "shell":
            return f"%%bash\n{data.code}"
        case "service":
            return f"{_INSIDE_IMPORT}\n{data.code}"
        case _:
            return None


def repeating_code(outcome: CallOutcome, *, limit_s: float = 60) -> str | None:
    """Return a cell that repeats a call in the way it was made; None for a call that ran no code."""
    data = cell_data(outcome)
    if data.kind == "shell":
        return f"{_INSIDE_IMPORT}\ninside.run_command({data.code!r}, limit_s={limit_s:g})"
    return code_of(outcome)


def _of_step(step: ToolStep) -> Iterator[Json]:
    texts = [text for text in (step.reply.reasoning, step.reply.content) if text.strip()]
    if texts:
        yield _markdown("\n\n".join(texts))
    for outcome in step.outcomes:
        code = code_of(outcome)
        if code is None:
            how = "was called outside the sandbox" if cell_data(outcome).kind else "was not carried out"
            yield _markdown(f"`{outcome.call.name}` {how}: {outcome.result.text}")
        else:
            count = cell_data(outcome).execution_count
            yield _code(code, outputs=_outputs(outcome), count=count, number=outcome.number)


def _outputs(outcome: CallOutcome) -> list[Json]:
    images = [part.data for part in outcome.result.parts if isinstance(part, ImagePart)]
    return [_with_image(output, images) for output in cell_data(outcome).outputs]


def _with_image(output: JsonMapping, images: list[bytes]) -> Json:
    """Restore the image of a notebook output, which `ipython.to_tool_result` replaced by an index."""
    shown = output.get("data")
    if not isinstance(shown, Mapping) or PNG not in shown:
        return dict(output)
    data = dict(shown)
    number = data.pop(PNG)
    if isinstance(number, int) and 0 <= number < len(images):
        data[PNG] = base64.b64encode(images[number]).decode()
    return {**output, "data": data}


def _markdown(text: str) -> Json:
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def _code(
    code: str,
    *,
    outputs: list[Json] | None = None,
    count: int | None = None,
    number: int | None = None,
    tags: list[str] | None = None,
) -> Json:
    metadata: Json = {"tags": tags} if tags else {}
    if number is not None:
        metadata["cua"] = {"call": number}
    return {
        "cell_type": "code",
        "metadata": metadata,
        "source": code,
        "outputs": outputs or [],
        "execution_count": count,
    }
