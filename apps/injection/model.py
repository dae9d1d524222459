"""The model `obeying`: does the user's task by a script, and what a planted text asks for as soon as it is there."""

from collections.abc import Sequence

from apps.injection.suite import find_plays
from cua.errors import ModelError
from cua.messages import Message, Reply, Sampling
from cua.model import Tool
from envs import EnvError

NAME = "obeying"


class ObeyingModel:
    """A model without any judgement, for measuring what protects a user from one; implements `cua.model.Model`.

    It looks at no screenshot: the script of the case that is being played (`apps.injection.play`) says what to do, and
    finds it by the names of links, buttons and fields in the page. The case is known by its instruction, so the suite
    must run in this process. The sampling is ignored.
    """

    name = NAME

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """The next step.

        Raises:
            ModelError: No case with this instruction is being played in this process, or several are.
        """
        request = messages[-1].text if messages else ""
        plays = find_plays(request)
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
    """The model of `--model obeying`."""
    return ObeyingModel()
