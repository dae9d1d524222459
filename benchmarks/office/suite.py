"""What the checks of the suite `office` say of its solutions, of nothing, and of its near misses.

python -m benchmarks.office.suite
"""

import tempfile
import time
from collections import Counter
from pathlib import Path

from apps.office.suite import all_cases
from apps.office.suite.case import evaluate_case


def main() -> None:
    counts: dict[str, Counter[str]] = {}
    began = time.monotonic()
    for case in all_cases():
        if lacks := case.lacks():
            print(f"left out: {case.name}: {lacks}")
            continue
        row = counts.setdefault(case.family, Counter())
        row["tasks"] += 1
        for what in ("solution", "nothing", "near miss"):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                case.prepare(folder)
                answer = {"solution": case.solve, "near miss": case.miss}.get(what, lambda _: "")(folder)
                row[what] += not evaluate_case(case, folder, answer)
    print("| family | tasks | solution | nothing | near miss |\n|---|--:|--:|--:|--:|")
    total: Counter[str] = Counter()
    for family, row in counts.items():
        total += row
        print(f"| {family} | {row['tasks']} | {row['solution']} | {row['nothing']} | {row['near miss']} |")
    print(f"| all | {total['tasks']} | {total['solution']} | {total['nothing']} | {total['near miss']} |")
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
