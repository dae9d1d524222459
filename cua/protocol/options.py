"""How the GUI protocol is spoken in a run."""

from dataclasses import dataclass

from cua.errors import ConfigError
from cua.interpreter import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolOptions:
    """Choices of the protocol; the defaults are those of the report.

    Attributes:
        thinking: Whether the model thinks before it answers; picks the prompt and the text of old steps.
        max_images: Pictures in one request, the current one included. Older steps stay as text.
        password: The computer's password, told to the model. Empty: the sentence about it is left out.
        coordinates: How the model writes places, see `cua.interpreter.coordinates`.
        extra_prompt: Text put at the end of the system prompt after an empty line. Empty: the report's prompt as it is.
        describe_observation: Whether what the picture does not show (failed actions, dialogs, notes, tabs) is told.
    """

    thinking: bool = True
    max_images: int = 3
    password: str = ""
    coordinates: Mode = "relative"
    extra_prompt: str = ""
    describe_observation: bool = True

    def __post_init__(self) -> None:
        if self.max_images < 1:
            raise ConfigError(f"max_images is {self.max_images}; a request holds at least 1 picture, the current one")
        if self.coordinates not in ("relative", "absolute", "qwen25"):
            raise ConfigError(f"coordinates is {self.coordinates!r}; expected relative, absolute or qwen25")
