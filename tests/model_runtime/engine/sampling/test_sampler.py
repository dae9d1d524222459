"""One token for each request of a batch, and faults that stay with their row."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from model_runtime.engine.contract import MAX_KEPT_IDS, EngineRequest, TokenLogprob
from model_runtime.engine.grammar import GrammarEngine
from model_runtime.engine.sampling import GrammarSpec, SamplingParams
from model_runtime.engine.sampling.sampler import Sampled, Sampler, make_prompt_logprobs
from model_runtime.engine.sampling.state import WRITABLE, OutputTokenCounts, SamplingState, find_banned_ids, make_state
from model_runtime.errors import InvalidRequestError
from model_runtime.media import Prompt
from model_runtime.tokenizer import SpecialTokens, Tokenizer
from tests.model_runtime.engine.sampling.test_draw import FILTERS, Filters, reference

SPECIAL = SpecialTokens(1024)
VOCAB_SIZE = 1280
INF = float("inf")
DEVICES = ("cpu", *(["cuda"] if torch.cuda.is_available() else []))


def make_plain(in_reasoning: bool = False, end_ids: tuple[int, ...] = (), **params: object) -> SamplingState:
    return SamplingState(
        params=SamplingParams(**params),  # type: ignore[arg-type]
        special=SPECIAL,
        end_ids=frozenset(end_ids),
        in_reasoning=in_reasoning,
    )


def make_logits(rows: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, VOCAB_SIZE, generator=torch.Generator().manual_seed(seed))


def sample_ids(logits: Tensor, states: list[SamplingState]) -> list[int]:
    return [sampled.token_id for sampled in Sampler(VOCAB_SIZE, SPECIAL).sample(logits.clone(), states)]


def test_greedy_takes_the_lowest_id_of_equals() -> None:
    logits = torch.zeros(3, VOCAB_SIZE)
    logits[1, [700, 41, 900]] = 5.0
    logits[2, SPECIAL.bos] = 9.0  # may not be written
    assert sample_ids(logits, [make_plain(temperature=0.0)] * 3) == [0, 41, 0]


def test_no_requests() -> None:
    assert Sampler(VOCAB_SIZE, SPECIAL).sample(torch.zeros(0, VOCAB_SIZE), []) == []


def test_control_tokens_of_the_template_are_never_sampled() -> None:
    banned = find_banned_ids(SPECIAL)
    names = {SPECIAL.text_of(token_id) for token_id in banned}
    assert {"<|media_pad|>", "<|im_user|>", "<|im_system|>", "[PAD]", "<|reserved_token_1029|>"} <= names
    assert len(banned) == 256 - len(WRITABLE)
    logits = torch.full((64, VOCAB_SIZE), -4.0)
    logits[:, 1024:] = 8.0
    states = [make_plain(seed=seed, top_p=(1.0, 0.9)[seed % 2]) for seed in range(64)]
    assert {SPECIAL.text_of(token_id) for token_id in sample_ids(logits, states)} <= set(WRITABLE)
    free = Sampler(VOCAB_SIZE, SPECIAL, banned_ids=())
    assert free.sample(logits, [make_plain(temperature=0.0)] * 64)[0].token_id == SPECIAL.bos


def run_seeded(order: list[int], num_steps: int, preempt: bool = False) -> dict[int, list[int]]:
    """Requests with a seed each in a batch of a given order; logits depend on the request and its place in the text."""
    extra = [{}, {"top_p": 0.9}, {"top_k": 9}, {"min_p": 0.05}, {"temperature": 0.0}, {"repetition_penalty": 1.3}]
    prompt = Prompt(token_ids=(1, 2, 3))
    tokenizer = Tokenizer(SPECIAL, (), None)  # type: ignore[arg-type]
    states = {
        name: make_state(
            EngineRequest(
                request_id=str(name),
                prompt=prompt,
                params=SamplingParams(seed=name // 2, **extra[name % 6]),  # type: ignore[arg-type]
            ),
            tokenizer,
            (),
        )
        for name in order
    }
    taken: dict[int, list[int]] = {name: [] for name in order}
    for step in range(num_steps):
        running = [name for name in order if (name + step) % 3] if preempt else order
        logits = torch.stack([make_logits(1, name * 100 + len(taken[name]))[0] for name in running])
        repeated = sample_ids(logits, [states[name] for name in running])
        for name, token_id in zip(running, sample_ids(logits, [states[name] for name in running]), strict=True):
            states[name].accept(token_id)
            taken[name].append(token_id)
        assert repeated == [taken[name][-1] for name in running], "sampling twice without accept must repeat itself"
    return taken


def test_a_seed_gives_the_same_tokens_whatever_else_runs() -> None:
    together = run_seeded(list(range(12)), 6)
    shuffled = run_seeded([7, 2, 11, 0, 5, 9, 4, 1, 10, 3, 8, 6], 6)
    waiting = run_seeded(list(range(12)), 6, preempt=True)
    assert together == shuffled
    for name, tokens in waiting.items():
        assert tokens == together[name][: len(tokens)]
        assert len(tokens) == 4
    assert run_seeded([3], 6)[3] == together[3]
    assert len({tuple(tokens) for tokens in together.values()}) == 12


def test_without_a_seed_runs_differ() -> None:
    logits = make_logits(1).expand(40, -1)
    assert len(set(sample_ids(logits, [make_plain() for _ in range(40)]))) > 20


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (float("nan"), "the model gave NaN in 2 of 1280 logits"),
        (INF, "the model gave inf in 2 of 1280 logits"),
        (-INF, None),
    ],
)
def test_a_broken_row_fails_alone(value: float, fault: str | None) -> None:
    logits = make_logits(3)
    logits[1, [4, 1200]] = value
    states = [make_plain(seed=1, logprobs=2), make_plain(seed=2, logprobs=2), make_plain(temperature=0.0)]
    healthy = Sampler(VOCAB_SIZE, SPECIAL).sample(make_logits(3), states)
    found = Sampler(VOCAB_SIZE, SPECIAL).sample(logits, states)
    assert [found[0], found[2]] == [healthy[0], healthy[2]]
    assert found[1].fault == fault
    assert found[1] == Sampled(token_id=-1, fault=fault) or fault is None


def test_a_row_without_anything_fails_alone() -> None:
    logits = make_logits(2)
    logits[0] = -INF
    found = Sampler(VOCAB_SIZE, SPECIAL).sample(logits, [make_plain(), make_plain(temperature=0.0)])
    assert found[0] == Sampled(token_id=-1, fault="the model gave -inf in 1280 of 1280 logits")
    assert found[1].fault is None


def test_bans_that_leave_nothing_are_a_fault() -> None:
    logits = torch.full((1, VOCAB_SIZE), -INF)
    logits[0, [SPECIAL.bos, SPECIAL.im_end]] = 0.0
    [found] = Sampler(VOCAB_SIZE, SPECIAL).sample(logits, [make_plain(min_tokens=1, end_ids=(SPECIAL.im_end,))])
    assert found == Sampled(token_id=-1, fault="no token is left: grammar, bans and min_tokens contradict each other")


def test_logprobs_are_those_of_the_model_itself() -> None:
    """Before penalties, bans, temperature and filters: even a token that could never be sampled is listed."""
    logits = make_logits(2)
    logits[0, [SPECIAL.bos, 9, 3]] = torch.tensor([9.0, 8.0, 8.0])
    expected = logits.double().log_softmax(-1)
    state = make_plain(seed=5, top_k=1, temperature=0.3, presence_penalty=2.0, logprobs=3)
    found = Sampler(VOCAB_SIZE, SPECIAL).sample(logits.clone(), [state, make_plain(seed=0)])
    assert found[1].logprob is None
    assert found[0].logprob is not None
    logprob = found[0].logprob
    assert (logprob.token_id, found[0].token_id) == (3, 3)
    assert [token_id for token_id, _ in logprob.top] == [SPECIAL.bos, 3, 9]
    assert [value for _, value in logprob.top] == pytest.approx(expected[0, [SPECIAL.bos, 3, 9]].tolist(), abs=1e-5)
    assert logprob.logprob == pytest.approx(float(expected[0, 3]), abs=1e-5)


@pytest.mark.parametrize("filters", FILTERS.values(), ids=FILTERS)
def test_processed_logprobs_are_those_of_the_drawn_distribution(filters: Filters) -> None:
    """After penalties and bans too, against the plain reference in float64; alternatives are what the filters left."""
    temperature, top_k, top_p, min_p = filters
    logits = make_logits(1, seed=3) * 2
    logits[0, SPECIAL.bos] = 30.0  # may not be written
    state = make_plain(
        seed=11,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        frequency_penalty=1.5,
        min_tokens=1,
        end_ids=(SPECIAL.im_end, 9),
        logprobs=20,
        logprobs_mode="processed_logprobs",
    )
    state.counts = OutputTokenCounts()
    for token_id in (40, 40, 41):
        state.counts.add(token_id)
    exact = logits[0].double().numpy().copy()
    exact[40] -= 3.0
    exact[41] -= 1.5
    exact[[*find_banned_ids(SPECIAL), SPECIAL.im_end, 9]] = -INF
    expected = reference(exact, filters)
    [found] = Sampler(VOCAB_SIZE, SPECIAL).sample(logits.clone(), [state])
    assert found.logprob is not None
    best = sorted(np.flatnonzero(expected).tolist(), key=lambda token: (-expected[token], token))[:20]
    assert found.logprob.sampled
    assert np.exp(found.logprob.logprob) == pytest.approx(expected[found.token_id], rel=1e-5)
    assert [token_id for token_id, _ in found.logprob.top] == best
    assert [np.exp(value) for _, value in found.logprob.top] == pytest.approx(expected[best], rel=1e-5)


@pytest.mark.parametrize("top_k", [0, 3])
def test_processed_logprobs_under_a_grammar(tokenizer: Tokenizer, top_k: int) -> None:
    """Of the distribution over what the grammar allows; a token that is allowed alone was not sampled."""
    spec = GrammarSpec(kind="regex", text="[a-f]Q")
    params = SamplingParams(
        seed=4, temperature=0.7, top_k=top_k, grammar=spec, logprobs=9, logprobs_mode="processed_logprobs"
    )
    request = EngineRequest(request_id="one", prompt=Prompt(token_ids=(5,)), params=params)
    state = make_state(request, tokenizer, (tokenizer.special.im_end,), GrammarEngine(tokenizer))
    sampler = Sampler(tokenizer.vocab_size, tokenizer.special)
    logits = make_logits(1)
    matcher = state.active_matcher
    assert matcher is not None
    words = torch.zeros((VOCAB_SIZE + 31) // 32, dtype=torch.int32)
    matcher.fill(words)
    allowed = [token for token in range(VOCAB_SIZE) if int(words[token // 32]) >> token % 32 & 1]
    exact = np.full(VOCAB_SIZE, -INF)
    exact[allowed] = logits[0, allowed].double().numpy()
    expected = reference(exact, (0.7, top_k, 1.0, 0.0))
    first = sampler.sample(logits.clone(), [state])[0].logprob
    assert first is not None
    assert (first.sampled, first.token_id in allowed) == (True, True)
    assert np.exp(first.logprob) == pytest.approx(expected[first.token_id], rel=1e-5)
    assert len(first.top) == min(9, np.count_nonzero(expected))
    state.accept(first.token_id)
    while not state.is_complete:
        one = sampler.sample(logits.clone(), [state])[0].logprob
        assert one == TokenLogprob(token_id=one.token_id, logprob=0.0, top=((one.token_id, 0.0),), sampled=False)  # type: ignore[union-attr]
        state.accept(one.token_id)  # type: ignore[union-attr]


def test_modes_stand_side_by_side_in_a_batch() -> None:
    """Raw, processed, greedy, put in, and none: each as it is alone."""
    asked: list[dict[str, Any]] = [
        {"seed": 1, "top_p": 0.7, "logprobs": 2, "logprobs_mode": "processed_logprobs"},
        {"seed": 2, "logprobs": 1},
        {"temperature": 0.0, "logprobs": 3, "logprobs_mode": "processed_logprobs"},
        {"seed": 3, "thinking_budget": 0, "in_reasoning": True, "logprobs": 1, "logprobs_mode": "processed_logprobs"},
        {"seed": 3, "thinking_budget": 0, "in_reasoning": True, "logprobs": 0},
        {"seed": 4},
    ]
    sampler = Sampler(VOCAB_SIZE, SPECIAL)
    together = sampler.sample(make_logits(6), [make_plain(**one) for one in asked])
    alone = [sampler.sample(make_logits(6)[[row]], [make_plain(**one)])[0] for row, one in enumerate(asked)]
    assert together == alone
    greedy, forced, forced_raw = (together[row].logprob for row in (2, 3, 4))
    likeliest = int(make_logits(6)[2, :1024].argmax())
    assert greedy == TokenLogprob(token_id=likeliest, logprob=0.0, top=((likeliest, 0.0),))
    end = SPECIAL.think_end
    assert forced == TokenLogprob(token_id=end, logprob=0.0, top=((end, 0.0),), sampled=False)
    assert forced_raw is not None
    assert (forced_raw.sampled, forced_raw.logprob < -3) == (False, True)


def test_prompt_logprobs() -> None:
    logits = torch.log(torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]]))
    found = make_prompt_logprobs(logits, (2, 0), 2)
    rounded = [
        dataclasses.replace(
            row,
            logprob=round(2.718281828**row.logprob, 5),
            top=tuple((i, round(2.718281828**p, 5)) for i, p in row.top),
        )
        for row in found
    ]
    assert rounded == [
        TokenLogprob(token_id=2, logprob=0.25, top=((0, 0.5), (1, 0.25)), sampled=False),
        TokenLogprob(token_id=0, logprob=0.1, top=((2, 0.7), (1, 0.2)), sampled=False),
    ]
    assert make_prompt_logprobs(torch.zeros(0, 3), (), 2) == []
    assert make_prompt_logprobs(torch.zeros(1, 3), (1,), 0)[0].top == ()


def test_no_end_before_min_tokens() -> None:
    logits = make_logits(2)
    logits[:, [SPECIAL.im_end, 7]] = 50.0
    logits[:, 70] = 40.0
    ends = (SPECIAL.im_end, 7)
    states = [make_plain(temperature=0.0, min_tokens=2, end_ids=ends), make_plain(seed=1, end_ids=ends)]
    tokens = []
    for _ in range(3):
        token_ids = sample_ids(logits, states)
        tokens.append(token_ids[0])
        for state, token_id in zip(states, token_ids, strict=True):
            state.accept(token_id)
        assert token_ids[1] in ends
    assert tokens == [70, 70, 7]


def test_a_spent_thinking_budget_closes_the_block() -> None:
    state = make_plain(temperature=0.0, in_reasoning=True, thinking_budget=2, logprobs=1)
    sampler = Sampler(VOCAB_SIZE, SPECIAL)
    logits = make_logits(1)
    logits[0, SPECIAL.think_end] = -30.0
    tokens = []
    for _ in range(4):
        [sampled] = sampler.sample(logits.clone(), [state])
        state.accept(sampled.token_id)
        tokens.append(sampled.token_id)
        assert sampled.logprob is not None
        assert (sampled.logprob.logprob < -30) == (sampled.token_id == SPECIAL.think_end)
    likeliest = int(logits[0, :1024].argmax())
    assert tokens == [likeliest, likeliest, SPECIAL.think_end, likeliest]
    assert (state.num_reasoning_tokens, state.in_reasoning) == (2, False)


@pytest.mark.parametrize("device", DEVICES)
def test_a_batch_of_everything_is_each_one_alone(tokenizer: Tokenizer, device: str) -> None:
    """Grammar, penalties, budget, greedy and filters in one batch, against the same requests one by one."""
    grammars = GrammarEngine(tokenizer)
    asked = [
        SamplingParams(seed=1, grammar=GrammarSpec(kind="regex", text="[a-f]{3,9}")),
        SamplingParams(temperature=0.0),
        SamplingParams(seed=2, frequency_penalty=1.5, logprobs=2),
        SamplingParams(temperature=0.0, grammar=GrammarSpec(kind="json_object")),
        SamplingParams(seed=3, thinking_budget=0),
        SamplingParams(seed=4, top_p=0.5, min_p=0.01),
    ]

    def step(chosen: list[int]) -> list[Sampled]:
        states = [
            make_state(
                EngineRequest(
                    request_id=str(place),
                    prompt=Prompt(token_ids=(5, 6)),
                    params=asked[place],
                    starts_in_reasoning=place == 4,
                ),
                tokenizer,
                (tokenizer.special.im_end,),
                grammars,
            )
            for place in chosen
        ]
        sampler = Sampler(tokenizer.vocab_size, tokenizer.special)
        return sampler.sample(make_logits(6)[chosen].to(device), states)

    together = step([0, 1, 2, 3, 4, 5])
    assert together == [step([place])[0] for place in range(6)]
    assert tokenizer.token_bytes(together[3].token_id).startswith(b"{")
    assert together[4].token_id == tokenizer.special.think_end


@pytest.mark.parametrize("filters", [name for name in FILTERS if name not in ("none", "hot", "cold")])
def test_kept_sets_are_the_tokens_that_could_be_drawn(filters: str) -> None:
    temperature, top_k, top_p, min_p = FILTERS[filters]
    logits = make_logits(6, seed=3)
    logits[3] = logits[3].round()  # ties at the limit: of equal ones, those of the lowest ids
    params: dict[str, Any] = {"temperature": temperature, "top_k": top_k or MAX_KEPT_IDS, "top_p": top_p}
    states = [make_plain(logprobs=0, return_kept_ids=True, min_p=min_p, **params) for _ in range(6)]
    found = Sampler(VOCAB_SIZE, SPECIAL).sample(logits.clone(), states)
    logits[:, list(find_banned_ids(SPECIAL))] = -INF
    for row, sampled in zip(logits.double().numpy(), found, strict=True):
        assert sampled.logprob is not None
        probabilities = reference(row, (temperature, top_k or MAX_KEPT_IDS, top_p, min_p))
        assert sampled.logprob.kept_ids == tuple(np.flatnonzero(probabilities))
        assert sampled.token_id in sampled.logprob.kept_ids


def test_kept_sets_are_empty_where_nothing_was_left_out_or_nothing_was_drawn() -> None:
    logits = make_logits(4)
    unlimited = make_plain(logprobs=0, return_kept_ids=True)
    unasked = make_plain(logprobs=0, top_k=5)
    forced = make_plain(in_reasoning=True, thinking_budget=0, logprobs=0, return_kept_ids=True, top_k=5)
    greedy = make_plain(logprobs=0, return_kept_ids=True, temperature=0.0, top_k=5)
    found = Sampler(VOCAB_SIZE, SPECIAL).sample(logits, [unlimited, unasked, forced, greedy])
    sets = [sampled.logprob.kept_ids for sampled in found if sampled.logprob]
    assert sets == [(), (), (), (found[3].token_id,)]


def test_kept_sets_need_a_limit_of_their_size() -> None:
    cases: list[dict[str, Any]] = [{"top_p": 0.9}, {"min_p": 0.1}, {"top_k": MAX_KEPT_IDS + 1}]
    for fields in cases:
        with pytest.raises(InvalidRequestError, match="top_k is"):
            SamplingParams(return_kept_ids=True, **fields).check()
    SamplingParams(return_kept_ids=True, top_p=0.9, top_k=MAX_KEPT_IDS).check()
