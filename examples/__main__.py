"""`python -m examples [NAME...] [--model MODEL] [--headed]`: run examples and say which reached their goal."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from cua.api import run_task
from examples.example import Example, load_examples


async def run_example(example: Example, model: str) -> bool:
    """Run one example; prints how it ended."""
    with tempfile.TemporaryDirectory(prefix="k25-example-") as name:
        folder = Path(name)
        env = example.make_env(folder)
        try:
            result = await run_task(example.make_task(folder), model=model, env=env, approve="yolo")
        finally:
            await env.close()
    end = result.end
    print(f"{end.status:<10} {example.name:<16} {result.num_steps:>3} steps {result.duration_s:6.1f} s  {end.reason}")
    return end.status == "succeeded"


def main() -> int:
    """Run what the command line names; exit status 1 when an example did not reach its goal."""
    parser = argparse.ArgumentParser(prog="python -m examples", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which examples; none lists them")
    parser.add_argument("--all", action="store_true", help="run all of them")
    parser.add_argument("--model", default="literal")
    flags = parser.parse_args()
    examples = {example.name: example for example in load_examples()}
    unknown = [name for name in flags.names if name not in examples]
    if unknown:
        parser.error(f"no example {unknown[0]!r}; there are {', '.join(examples)}")
    chosen = list(examples) if flags.all else flags.names
    if not chosen:
        print("\n".join(f"{example.name:<16} {example.env:<8} {example.instruction}" for example in examples.values()))
        return 0
    ends = [asyncio.run(run_example(examples[name], flags.model)) for name in chosen]
    return 0 if all(ends) else 1


if __name__ == "__main__":
    sys.exit(main())
