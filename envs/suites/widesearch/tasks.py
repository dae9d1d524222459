"""Suite `widesearch`: collect a table from a generated corpus; the score is item-F1."""

import functools
from typing import Any

from envs.env import EnvSpec, QuestionTask, TaskSpec, TaskVerdict
from envs.judge import Judge, find_judge
from envs.suite import FAMILY, Baseline, Suite
from envs.suites.widesearch.corpus import REVISION, SIZES, GeneratedCorpus, Table, make_corpus, slug
from envs.suites.widesearch.scoring import ScoredColumn, Scores, score_table, score_with_judge
from envs.suites.widesearch.server import CorpusServer

PREFIX = "widesearch/"
NO_JUDGE = "no judge is named: {columns} is compared as text, and what is worded differently counts as wrong"
_BASELINES = {
    name: Baseline(score=0.0, num_episodes=18, command=f"cua eval widesearch --baseline {name}")
    for name in ("null", "fail", "random")
}


class WideSearchTask(QuestionTask):
    """Task to collect one table.

    In a browser the task starts its own server for the corpus. Agents with search tools need no server: `score`
    evaluates their answer.

    Args:
        table: True rows.
        spec: Id and environment of the task.
        size: Size of the corpus.
        judge: Compares texts whose wording may differ; None compares them as strings.
    """

    def __init__(self, table: Table, spec: TaskSpec, *, size: str, judge: Judge | None = None) -> None:
        self.table = table
        self.spec = spec
        self.columns = columns_of(table)
        self.instruction = self._instruct()
        self.search = f"local:world:{spec.seed or 0}:{size}"
        self._size = size
        self._server: CorpusServer | None = None
        self._judge = judge
        texts = ", ".join(column.name for column in self.columns if column.metric == "judge")
        self.warnings = [NO_JUDGE.format(columns=texts)] if texts and judge is None else []

    def _instruct(self, address_note: str = "") -> str:
        names = " | ".join(column.name for column in self.columns)
        return (
            f"Collect {', '.join(column.name for column in self.columns)} of all {self.table.family.plural} "
            f'in {self.table.country} that are listed on "{self.table.list_title}".{address_note}\n\n'
            "Answer with one table in Markdown, in a fenced block with the tag markdown, one row for each, and exactly "
            f"these columns:\n| {names} |\nDates as YYYY-MM-DD, numbers without unit. The pages of the atlas are "
            "right; mirrors of it may be out of date, and things of the same name exist in other countries."
        )

    def score(self, answer: str | None) -> Scores:
        """Score an answer, comparing texts as strings."""
        return score_table(answer, self.table.rows, self.columns, keys=(self.table.family.key,))

    async def setup(self, env: Any) -> None:
        """Start the server of the corpus and open its start page."""
        self._server = await CorpusServer.start(self.spec.seed or 0, self._size)
        self.instruction = self._instruct(f" The encyclopedia is at {self._server.url}; it has a search field.")
        try:
            await env.goto(self._server.url)
        except BaseException:
            await self.teardown(env)
            raise

    async def evaluate(self, env: Any) -> TaskVerdict:
        """Return item-F1 of the agent's final answer.

        Other scores: row-F1 and, with a judge, item-F1 without it.

        Raises:
            EnvDiedError: If the judge does not answer, or its answer is not a verdict.
        """
        answer = env.terminate.answer if env.terminate is not None else None
        scores = plain = self.score(answer)
        if self._judge is not None:
            keys = (self.table.family.key,)
            scores = await score_with_judge(answer, self.table.rows, self.columns, keys=keys, judge=self._judge)
        others = {"row_f1": scores.row_f1} | ({} if self._judge is None else {"as_text": plain.item_f1})
        other_scores = {name: min(score, 1.0) for name, score in others.items()}
        return TaskVerdict(min(scores.item_f1, 1.0), other_scores=other_scores)

    async def teardown(self, env: Any) -> None:
        """Stop the server."""
        server, self._server = self._server, None
        if server is not None:
            await server.close()


def columns_of(table: Table) -> tuple[ScoredColumn, ...]:
    """Return the comparison rule of each column of a table."""
    family = table.family
    key = ScoredColumn(name=family.key, metric="exact", aliases=("Name",))
    others = [
        ScoredColumn(name=column.name, metric=column.metric, aliases=column.labels[:1]) for column in family.columns
    ]
    return (key, *others)


@functools.lru_cache(maxsize=4)
def _load_corpus(seed: int, size: str) -> GeneratedCorpus:
    return make_corpus(seed, size=size)


def make_suite(size: str = "small", num_seeds: int = 3, judge: str = "", judge_url: str = "") -> Suite:
    """Make tasks to collect all items of a family in a country.

    Args:
        size: `tiny`, `small` or `full`; see `SIZES` in the module `corpus`.
        num_seeds: Number of generated corpora.
        judge: Model that compares free texts; "" compares them as strings.
        judge_url: Endpoint of the judge; "" uses `OPENAI_BASE_URL`.

    Raises:
        ValueError: If a value is invalid.
        EnvSetupError: If only one of `judge` and its endpoint is given.
    """
    if size not in SIZES:
        raise ValueError(f"size is {size!r}, expected one of {', '.join(SIZES)}")
    if not 1 <= int(num_seeds) <= 1000:
        raise ValueError(f"num_seeds is {num_seeds}, expected 1 to 1000")
    asked = find_judge(judge, judge_url)
    ids = tuple(f"{PREFIX}{_id(table)}" for table in _load_corpus(0, size).tables)

    def make_task(task_id: str, seed: int | None) -> WideSearchTask:
        tables = {f"{PREFIX}{_id(table)}": table for table in _load_corpus(seed or 0, size).tables}
        if task_id not in tables:
            raise ValueError(f"the suite widesearch has no task {task_id!r} here; expected one such as {ids[0]!r}")
        table = tables[task_id]
        metadata = {FAMILY: table.family.plural, "rows": len(table.rows), "size": size}
        spec = TaskSpec(id=task_id, seed=seed, env=EnvSpec(name="browser"), metadata=metadata)
        return WideSearchTask(table, spec, size=size, judge=asked)

    return Suite(
        name="widesearch",
        about=f"Wide search on generated corpora: {len(ids)} tables to collect, {size}; score: item-F1",
        task_ids=ids,
        make_task=make_task,
        seeds=tuple(range(int(num_seeds))),
        revision=f"{REVISION}, judged by {judge}" if asked is not None else REVISION,
        max_steps=100,
        max_time_s=1800.0,
        agents=("tools", "swarm", "gui"),
        baselines=_BASELINES,
    )


def _id(table: Table) -> str:
    return f"{table.family.plural}-{slug(table.country)}"
