"""Time of searches in a large local folder: `python -m benchmarks.local_search [--mb 100] [--queries 300]`.

The folder has books of generated words with Zipf's frequencies, so that the most frequent ones are in every passage, as
stop words are. Queries have 1 to 12 words of all frequencies; every fifth has frequent words only.
"""

import argparse
import asyncio
import json
import random
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from cua.research.fetch import FOLDER_URL
from cua.research.local import LocalIndex

NUM_WORDS = 50_000
BOOK_BYTES = 2_000_000


def write_books(folder: Path, num_bytes: int, rng: random.Random) -> list[str]:
    """Write text files and return their words, the most frequent first."""
    words = list(
        dict.fromkeys("".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(NUM_WORDS))
    )
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    for number in range(num_bytes // BOOK_BYTES):
        text = " ".join(rng.choices(words, weights, k=BOOK_BYTES // 5))
        (folder / f"book{number:03}.txt").write_text(text[:BOOK_BYTES], "utf-8")
    return words


async def bench(num_bytes: int, num_queries: int) -> dict[str, Any]:
    """Index the books and search in them, one query after the other."""
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        words = write_books(Path(folder), num_bytes, rng)
        index = LocalIndex()
        started = time.monotonic()
        index.update(Path(folder), FOLDER_URL)
        index_s, cpu_s, wall_s = time.monotonic() - started, [], []
        for number in range(num_queries):
            known = words[:30] if number % 5 == 0 else words
            query = " ".join(rng.choices(known, k=rng.randint(1, 12)))
            cpu, started = time.process_time(), time.monotonic()
            await index.search(query, 10)
            cpu_s.append(time.process_time() - cpu)
            wall_s.append(time.monotonic() - started)
        index.close()
    return {
        "mb": num_bytes // 1_000_000,
        "index_s": round(index_s, 1),
        "cpu_s_median": round(median(cpu_s), 3),
        "cpu_s_max": round(max(cpu_s), 3),
        "wall_s_max": round(max(wall_s), 3),
    }


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=100)
    parser.add_argument("--queries", type=int, default=300)
    given = parser.parse_args()
    print(json.dumps(asyncio.run(bench(given.mb * 1_000_000, given.queries)), indent=1))


if __name__ == "__main__":
    main()
