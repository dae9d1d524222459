"""What a record keeps of a call besides its words, read back as foreign data."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cua.errors import TrajectoryError
from cua.tool_step import CallOutcome


class CellData(BaseModel):
    """Fields that `cua.tools.cells.to_tool_result` writes; a call that ran nothing has none of them.

    Attributes:
        kind: `ipython`, `shell` or `service`; "" for a call that ran nothing.
        code: The notebook's cell.
        status: How it ended.
        text: What it printed.
        outputs: The same in nbformat's form, pictures named by their place.
        execution_count: Number of the cell.
        files_written: Files that it made or changed.
    """

    model_config = ConfigDict(frozen=True)

    kind: str = ""
    code: str = ""
    status: str = ""
    text: str = ""
    outputs: tuple[dict[str, Any], ...] = ()
    execution_count: int | None = Field(default=None, ge=0)
    files_written: tuple[str, ...] = ()


def cell_data(outcome: CallOutcome) -> CellData:
    """The fields of a call's result.

    Raises:
        TrajectoryError: They are damaged.
    """
    try:
        return CellData.model_validate(dict(outcome.result.data))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise TrajectoryError(f"the record of call {outcome.number} is damaged: {where}: {first['msg']}") from error
