"""Search for regular expressions of task files, which may take for ever, in a process that is ended in time."""

import json
import subprocess
import sys
from collections.abc import Sequence

from envs.errors import EvaluationError

_TIMEOUT_S = 10.0
_SCRIPT = """
import json, re, sys
asked = json.load(sys.stdin)
patterns = [re.compile(pattern, asked["flags"]) for pattern in asked["patterns"]]
print(json.dumps([any(pattern.search(text) for text in asked["texts"]) for pattern in patterns]))
"""


def find_patterns(patterns: Sequence[str], texts: Sequence[str], flags: int = 0) -> list[bool]:
    """Return for each pattern whether it is found in any of the texts. Blocks for at most some seconds.

    Raises:
        EvaluationError: One is not a regular expression, or searching takes too long.
    """
    asked = json.dumps({"patterns": list(patterns), "texts": list(texts), "flags": int(flags)})
    command = [sys.executable, "-I", "-S", "-c", _SCRIPT]
    try:
        done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        told = f"searching for {str(list(patterns))[:200]} takes longer than {_TIMEOUT_S:g} s"
        raise EvaluationError(f"{told}; it was ended") from error
    if done.returncode != 0:
        told = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise EvaluationError(f"{str(list(patterns))[:200]} cannot be searched for: {told[:300]}")
    return [found is True for found in json.loads(done.stdout)]
