"""Token counts of one answer."""

from dataclasses import dataclass, field
from typing import Any

from model_runtime.engine.contract import EngineOutput


@dataclass(slots=True)
class Usage:
    """Counts over all sequences of a request; a prompt that several choices share counts once.

    Args:
        num_choices: Choices for each prompt.
    """

    num_choices: int = 1
    num_completion: int = 0
    num_reasoning: int = 0
    _prompts: dict[int, tuple[int, int]] = field(default_factory=dict)

    def take(self, index: int, output: EngineOutput) -> None:
        """Add what one step brought to sequence `index`."""
        self.num_completion += len(output.token_ids)
        if index % self.num_choices == 0 and output.num_prompt_tokens:
            self._prompts[index] = (output.num_prompt_tokens, output.num_cached_tokens)

    @property
    def num_prompt(self) -> int:
        """Tokens of the prompts."""
        return sum(prompt for prompt, _ in self._prompts.values())

    @property
    def num_cached(self) -> int:
        """Of these, how many came from the prefix cache."""
        return sum(cached for _, cached in self._prompts.values())

    def to_json(self) -> dict[str, Any]:
        """OpenAI's form."""
        return {
            "prompt_tokens": self.num_prompt,
            "completion_tokens": self.num_completion,
            "total_tokens": self.num_prompt + self.num_completion,
            "prompt_tokens_details": {"cached_tokens": self.num_cached},
            "completion_tokens_details": {"reasoning_tokens": self.num_reasoning},
        }
