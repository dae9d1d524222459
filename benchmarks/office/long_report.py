"""A report of 100 pages by a scripted swarm, killed on the way, resumed, merged and verified.

    python -m benchmarks.office.long_report [--chapters 22] [--faulty 7] [--out FOLDER]

The script stands for the model: an outline, then for each chapter a cell that writes text, figures, equations and
works cited, and a check. The swarm, the sandbox, the merge and the verifier are the real ones.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

TOPICS = (
    ("Prime numbers", "n\\ \\text{is divisible by no}\\ d,\\ 1<d<n", "hardy1938"),
    ("Squares", "n^2 = \\sum_{k=1}^{n} (2k-1)", "conway1996"),
    ("Triangular numbers", "T_n = \\frac{n(n+1)}{2}", "conway1996"),
    ("Cubes", "\\sum_{k=1}^{n} k^3 = \\left(\\frac{n(n+1)}{2}\\right)^2", "knuth1997"),
    ("Fibonacci numbers", "F_n = \\frac{\\varphi^n - \\psi^n}{\\sqrt{5}}", "knuth1997"),
    ("Perfect numbers", "\\sigma(n) = 2n", "hardy1938"),
    ("Powers of two", "2^n = \\sum_{k=0}^{n} \\binom{n}{k}", "graham1994"),
    ("Factorials", "n! \\approx \\sqrt{2\\pi n}\\,\\left(\\frac{n}{e}\\right)^n", "graham1994"),
    ("Divisors", "d(n) = \\prod_{p^a \\| n} (a+1)", "hardy1938"),
    ("Totients", "\\varphi(n) = n \\prod_{p \\mid n} \\left(1 - \\frac{1}{p}\\right)", "hardy1938"),
    ("Collatz paths", "c(n) = \\begin{cases} n/2 & n\\ \\text{even} \\\\ 3n+1 & n\\ \\text{odd} \\end{cases}", "guy2004"),
)  # fmt: skip
WORKS = """@book{hardy1938, author={Hardy, G. H. and Wright, E. M.}, title={An Introduction to the Theory of Numbers}, publisher={Oxford University Press}, year={1938}}
@book{conway1996, author={Conway, John H. and Guy, Richard K.}, title={The Book of Numbers}, publisher={Springer}, year={1996}}
@book{knuth1997, author={Knuth, Donald E.}, title={The Art of Computer Programming, Volume 1}, publisher={Addison-Wesley}, year={1997}}
@book{graham1994, author={Graham, Ronald L. and Knuth, Donald E. and Patashnik, Oren}, title={Concrete Mathematics}, publisher={Addison-Wesley}, year={1994}}
@book{guy2004, author={Guy, Richard K.}, title={Unsolved Problems in Number Theory}, publisher={Springer}, year={2004}}
"""
_WRITER = """
import math
import matplotlib.pyplot as plt

def divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]

def facts(n):
    d, binary = divisors(n), bin(n)[2:]
    steps, m = 0, n
    while m != 1:
        m, steps = (m // 2 if m % 2 == 0 else 3 * m + 1), steps + 1
    kind = "prime" if len(d) == 2 else "abundant" if sum(d) > 2 * n else "perfect" if sum(d) == 2 * n else "deficient"
    return (
        f"The number {n} is {kind}: its divisors are {', '.join(map(str, d))}, and their sum is {sum(d)}. "
        f"In the binary system it is written {binary}, with {binary.count('1')} ones among {len(binary)} digits. "
        f"Its square is {n * n}, its cube {n**3}, and its square root lies between {math.isqrt(n)} and {math.isqrt(n) + 1}. "
        f"The Collatz path from {n} reaches 1 after {steps} steps. "
        f"Of the numbers up to {n}, {sum(math.gcd(n, k) == 1 for k in range(1, n + 1))} have no factor in common with it."
    )

low = 20 * NUMBER
lines = [f"# {TITLE}", "", f"This chapter looks at the numbers from {low} to {low + 17} with {TITLE.lower()} in mind [@{KEY}]. "
         "What holds for all of them is said once, in the equation below; what is particular is said of each.[^1]", "",
         "[^1]: All values were calculated by the code that wrote this chapter.", "", f"$$" + LATEX + "$$", ""]
for part, name in enumerate(("First", "Second", "Third")):
    numbers = range(low + 6 * part, low + 6 * part + 6)
    lines += [f"## {name} part: {numbers[0]} to {numbers[-1]}", ""]
    for n in numbers:
        lines += [facts(n), ""]
    lines += [f"The mean of the divisors of $n$ is $\\\\sigma(n)/d(n)$; @fig:f{part} shows it, @tbl:t{part} has the values.", "",
              f"$$\\\\bar d({numbers[0]}) = \\\\frac{{{sum(divisors(numbers[0]))}}}{{{len(divisors(numbers[0]))}}}$$", "",
              f"![Mean divisor of the numbers around {numbers[0]}](mean{part}.png){{#fig:f{part} width=85%}}", "",
              "| Number | Divisors | Sum |", "|---:|---:|---:|",
              *[f"| {n} | {len(divisors(n))} | {sum(divisors(n))} |" for n in numbers], "",
              f": Divisors of {numbers[0]} to {numbers[-1]} {{#tbl:t{part}}}", ""]
    span = range(max(1, numbers[0] - 40), numbers[-1] + 40)
    figure, axes = plt.subplots(figsize=(6, 4.6))
    axes.bar(span, [sum(divisors(n)) / len(divisors(n)) for n in span], color="#1F3864")
    axes.set(xlabel="number", ylabel="mean divisor")
    figure.tight_layout()
    figure.savefig(f"mean{part}.png", dpi=90)
    plt.close(figure)
open("chapter.md", "w").write("\\n".join(lines))
open("works.bib", "w").write(WORKS)
"""


def _call(name: str, /, **arguments: object) -> dict[str, object]:
    return {"id": "x", "name": name, "arguments": json.dumps(arguments)}


def write_script(path: Path, chapters: int, faulty: int) -> None:
    """The replies of the whole swarm as JSON lines.

    Args:
        path: Where to.
        chapters: How many there are.
        faulty: Chapter that is left with a mark which the verifier finds, and mended when it is given back; 0 for none.
    """
    titles = [f"{TOPICS[n % len(TOPICS)][0]}, part {n // len(TOPICS) + 1}" for n in range(chapters)]
    prompts = [f"Chapter {n}: {title}\nWrite it as your rules say." for n, title in enumerate(titles, 1)]
    main = "You are the editor of a long document."
    create = _call(
        "create_subagent", name="chapter-writer", system_prompt="You write one chapter of a book on numbers."
    )
    assign = [_call("assign_task", agent="chapter-writer", prompt=prompt) for prompt in prompts]
    lines: list[dict[str, object]] = [
        {"for": main, "content": "One outline, one writer.", "tool_calls": [create]},
        {"for": main, "content": "All chapters at once.", "tool_calls": assign},
        {"for": main, "content": "# A companion to the first numbers\nA scripted swarm\nAll chapters are written."},
    ]
    mend = "text = open('chapter.md').read()\nopen('chapter.md', 'w').write(text.replace(' ???', ''))"
    found = "The verifier found something in your chapter"
    mending = [
        {"for": found, "content": "I mend.", "tool_calls": [_call("ipython", code=mend)]},
        {"for": found, "content": "The mark is gone."},
    ]
    lines[:0] = mending if faulty else []
    for number, title in enumerate(titles, 1):
        key = f"Chapter {number}: "
        _, latex, cited = TOPICS[(number - 1) % len(TOPICS)]
        head = f"NUMBER, TITLE, LATEX, KEY, WORKS = {number}, {title!r}, {latex!r}, {cited!r}, {WORKS!r}\n"
        code = head + (_WRITER.replace("in mind [@", "in mind ??? [@") if number == faulty else _WRITER)
        lines.append({"for": key, "content": "I write.", "tool_calls": [_call("ipython", code=code)], "after_s": 1})
        lines.append({"for": key, "content": "I check.", "tool_calls": [_call("check_chapter")]})
        lines.append({"for": key, "content": f"Chapter {number} is written."})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--chapters", type=int, default=22)
    parser.add_argument("--out", type=Path, default=Path("long-report"))
    parser.add_argument(
        "--kill-after", type=float, default=45.0, help="Seconds until the first try is killed; 0: never."
    )
    parser.add_argument("--faulty", type=int, default=0, help="Chapter in which the verifier finds something; 0: none.")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    script = given.out / "replies.jsonl"
    write_script(script, given.chapters, given.faulty)
    runs = given.out / "runs"
    expect = ["words>=10000", "pages>=100", f"equations>={4 * given.chapters}", f"figures>={3 * given.chapters}"]
    wanted = [part for one in expect for part in ("--expect", one)] + ["--expect", "report.docx:bibliography>=5"]
    command = [sys.executable, "-m", "apps.cli.main", "office", "--long", "-m", f"scripted:{script}", "-o"]
    command += [str(given.out / "report"), *wanted, "--set", f"runs_dir={runs}"]
    began = time.monotonic()
    if given.kill_after:
        with (given.out / "first.log").open("w") as log:
            first = subprocess.Popen([*command, "A companion to the first numbers"], stderr=log, start_new_session=True)
            try:
                first.wait(given.kill_after)
            except subprocess.TimeoutExpired:
                os.killpg(first.pid, signal.SIGKILL)
            print(f"killed after {time.monotonic() - began:.0f} s: exit code {first.wait()}", flush=True)
        command += ["--resume", "last", "--restart-children"]
    else:
        command += ["A companion to the first numbers"]
    began = time.monotonic()
    code = subprocess.run(command, check=False).returncode
    print(f"finished after {time.monotonic() - began:.0f} s: exit code {code}")
    return code


if __name__ == "__main__":
    sys.exit(main())
