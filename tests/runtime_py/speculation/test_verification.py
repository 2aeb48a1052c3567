from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

from edgec.runtime_py.decoding.sampling import Sampler, Sampling, draw, probabilities, process_logits
from edgec.runtime_py.speculation.draft import Draft
from edgec.runtime_py.speculation.verification import accept_or_redraw, choose_along

DRAWS, VOCAB, HISTORY = 20_000, 7, [0, 3, 3]
# A true hypothesis fails at this level once in a thousand seeds; the seeds here are fixed.
P_VALUE = 1e-3
OPTIONS = [
    Sampling(temperature=1.0),
    *(
        pytest.param(sampling, marks=pytest.mark.slow)
        for sampling in (
            Sampling(temperature=0.6),
            Sampling(temperature=1.5, top_k=4),
            Sampling(temperature=1.0, top_p=0.8),
            Sampling(temperature=1.2, min_p=0.2),
            Sampling(temperature=0.9, top_k=5, top_p=0.9, min_p=0.05, repetition_penalty=1.3),
        )
    ),
]


def scores(seed: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.0, 1.5, (count, VOCAB)).astype(np.float32)


def after(table: np.ndarray, token: int) -> np.ndarray:
    """Logits that depend on the last token, so that a wrong history shows."""
    return np.roll(table[1], token)


def true_distribution(table: np.ndarray, sampling: Sampling) -> np.ndarray:
    """Of the next two tokens, [VOCAB * VOCAB]."""
    first = probabilities(process_logits(table[0], HISTORY, sampling))
    second = [probabilities(process_logits(after(table, t), [*HISTORY, t], sampling)) for t in range(VOCAB)]
    return (first[:, None] * np.array(second)).ravel()


def assert_distributed(counts: np.ndarray, wanted: np.ndarray) -> None:
    """Chi-squared over the cells with at least five expected draws; the others together must stay as rare."""
    expected = wanted * counts.sum()
    assert counts[wanted == 0].sum() == 0
    common = expected >= 5
    observed = [*counts[common], counts[~common].sum()]
    hoped = [*expected[common], expected[~common].sum()]
    if hoped[-1] == 0:
        observed, hoped = observed[:-1], hoped[:-1]
    assert chisquare(observed, hoped).pvalue > P_VALUE


@pytest.mark.long
@pytest.mark.parametrize("sampling", OPTIONS)
def test_drawn_drafts_leave_the_distribution_as_it_is(sampling: Sampling) -> None:
    """Two tokens after HISTORY: by one draft of two tokens, its acceptance, and a plain draw where it fell short."""
    target, other = scores(1, 2), scores(2, 2)
    guess = 0.4 * target + 0.6 * other
    rng = np.random.default_rng(3)
    counts = np.zeros(VOCAB * VOCAB)
    for _ in range(DRAWS):
        q = [probabilities(process_logits(guess[0], HISTORY, sampling))]
        tokens = [draw(q[0], rng)]
        q.append(probabilities(process_logits(after(guess, tokens[0]), [*HISTORY, tokens[0]], sampling)))
        tokens.append(draw(q[1], rng))
        rows, text = np.stack([target[0], after(target, tokens[0]), target[0]]), list(HISTORY)
        accept_or_redraw(rows, Draft(tuple(tokens), tuple(q)), text, Sampler(sampling), rng)
        if len(text) == len(HISTORY) + 1:
            text.append(draw(probabilities(process_logits(after(target, text[-1]), text, sampling)), rng))
        counts[text[3] * VOCAB + text[4]] += 1
    assert_distributed(counts, true_distribution(target, sampling))


@pytest.mark.long
@pytest.mark.parametrize("sampling", OPTIONS)
def test_a_draft_that_was_not_drawn_leaves_the_distribution_as_it_is(sampling: Sampling) -> None:
    target = scores(1, 2)
    sampler, likeliest = Sampler(sampling), int(target[0].argmax())
    sampler._rng = np.random.default_rng(4)
    rows = np.stack([target[0], after(target, likeliest), target[0]])
    counts = np.zeros(VOCAB * VOCAB)
    for _ in range(DRAWS):
        text = list(HISTORY)
        choose_along(rows, (likeliest, 5), text, sampler)
        if len(text) == len(HISTORY) + 1:
            text.append(sampler(after(target, text[-1]), text))
        counts[text[3] * VOCAB + text[4]] += 1
    assert_distributed(counts, true_distribution(target, sampling))


def test_the_chi_squared_test_notices_a_wrong_distribution() -> None:
    """Accepting every drafted token is the mistake this must catch."""
    target, guess = scores(1, 2), scores(2, 2)
    rng = np.random.default_rng(5)
    likely = probabilities(0.2 * guess[0] + 0.8 * target[0])
    counts = np.bincount([draw(likely, rng) for _ in range(DRAWS)], minlength=VOCAB).astype(float)
    with pytest.raises(AssertionError):
        assert_distributed(counts, probabilities(target[0]))


def test_equal_distributions_accept_everything() -> None:
    sampling, rng = Sampling(temperature=1.0), np.random.default_rng(6)
    row = scores(1, 1)[0]
    likely = probabilities(row)
    for _ in range(500):
        tokens, text = tuple(draw(likely, rng) for _ in range(3)), [0]
        assert accept_or_redraw(np.stack([row] * 4), Draft(tokens, (likely,) * 3), text, Sampler(sampling), rng) == 3
        assert tuple(text[1:4]) == tokens and len(text) == 5


def test_a_token_that_the_model_excludes_is_never_kept() -> None:
    sampling, rng = Sampling(temperature=1.0, top_k=1), np.random.default_rng(7)
    row = scores(1, 1)[0]
    uniform, text = np.full(VOCAB, 1 / VOCAB), [0]
    wrong = int(row.argmin())
    assert accept_or_redraw(np.stack([row] * 2), Draft((wrong,), (uniform,)), text, Sampler(sampling), rng) == 0
    assert text == [0, int(row.argmax())]


@pytest.mark.parametrize(
    ("draft", "right", "text"), [((2, 4, 1), 3, [2, 4, 1, 3]), ((2, 0, 1), 1, [2, 4]), ((), 0, [2]), ((0,), 0, [2])]
)
def test_greedy_keeps_the_agreeing_beginning_and_adds_one(draft: tuple[int, ...], right: int, text: list[int]) -> None:
    rows, history = np.eye(5, dtype=np.float32)[[2, 4, 1, 3]], [0]
    assert choose_along(rows, draft, history, Sampler(Sampling())) == right
    assert history == [0, *text]


def test_the_history_grows_along_the_draft() -> None:
    seen: list[list[int]] = []

    def choose(_: object, history: object) -> int:
        seen.append(list(history))  # type: ignore[call-overload]
        return len(seen)

    text = [9]
    assert choose_along(np.zeros((3, 4), np.float32), (1, 2), text, choose) == 2
    assert seen == [[9], [9, 1], [9, 1, 2]] and text == [9, 1, 2, 3]
