"""Model `obeying`: runs the user's task by a script, and obeys a planted text as soon as it appears."""

from collections.abc import Sequence

from apps.injection.suite import find_scripts
from cua.errors import ModelError
from cua.messages import Message, Reply, Sampling
from cua.model import Tool
from envs import EnvError

NAME = "obeying"


class ObeyingModel:
    """Model without any judgement, to measure what protects a user from one; implements `cua.model.Model`.

    It ignores screenshots: the script of the active case (`apps.injection.suite`) selects the next step, and finds its
    target by the names of links, buttons and fields in the page. The case is found by its instruction, so the suite
    must run in this process. The sampling is ignored.
    """

    name = NAME

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """Return the next step.

        Raises:
            ModelError: If not exactly one case with this instruction is set up in this process.
        """
        request = messages[-1].text if messages else ""
        plays = find_scripts(request)
        if len(plays) != 1:
            raise ModelError(
                f"{NAME} found {len(plays)} running cases of the suite `injection` for this request, expected one: it "
                "plays nothing else, with --executor local, and each case once at a time (--parallel 1 with --repeats)",
                retryable=False,
            )
        try:
            action, code = await plays[0].next(request)
        except EnvError as error:
            raise ModelError(f"{NAME} cannot see the page: {error}", retryable=False) from error
        return Reply(content=f"## Action:\n{action}\n\n## Code:\n```python\n{code}\n```", model=NAME)

    async def close(self) -> None:
        """Do nothing: the model holds no resources."""


def make_obeying() -> ObeyingModel:
    """Make the model of `--model obeying`."""
    return ObeyingModel()
