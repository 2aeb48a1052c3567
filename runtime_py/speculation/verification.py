"""The verification of drafts: exactly those tokens stay that the model itself would have chosen.

Drafts that were not drawn: the model's sampler chooses from each row in turn, and continues as long as it chooses the
drafted token. It sees the logits and the history that it would see without a draft and draws as many random numbers, so
the text is the same token for token, greedy or sampled. A drafted token is right with the probability that the model
gives it, which is also what rejection sampling achieves for such drafts.

Drafts that were drawn from distributions q: token x stays with probability min(1, p(x) / q(x)); the first one that does
not is replaced by a draw from max(p - q, 0), normalised. The result is distributed as p (Leviathan et al. 2023,
arXiv 2211.17192, theorem 3.5), where p is what the sampler draws from: after penalty, temperature, top-k, top-p, min-p.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from edgec.runtime_py.decoding.sampling import Sampler, draw, probabilities
from edgec.runtime_py.decoding.stepper import Logits
from edgec.runtime_py.speculation.draft import Draft
from edgec.runtime_py.structured.rule import TokenRule

Choose = Callable[[Logits, Sequence[int]], int]


def choose_along(rows: Logits, tokens: Sequence[int], history: list[int], choose: Choose) -> int:
    """Append to ``history`` the tokens chosen along a draft that was not drawn: the right ones, then one more.

    Args:
        rows: float32 [len(tokens) + 1, vocabulary]: logits after the history and after each drafted token.
        tokens: the draft.
        history: all tokens before it.
        choose: the sampler.

    Returns:
        How many drafted tokens were right.
    """
    for index, drafted in enumerate(tokens):
        chosen = choose(rows[index], history)
        history.append(chosen)
        if chosen != drafted:
            return index
    history.append(choose(rows[len(tokens)], history))
    return len(tokens)


def accept_or_redraw(
    rows: Logits,
    draft: Draft,
    history: list[int],
    sampler: Sampler,
    rng: np.random.Generator,
) -> int:
    """Rejection sampling for a draft that was drawn; arguments and result as in ``choose_along``.

    A token that the rule of a structured text replaces, so that the text closes, ends the round.
    """
    assert draft.drawn_from is not None
    rule = sampler.rule
    for index, (token, guessed) in enumerate(zip(draft.tokens, draft.drawn_from, strict=True)):
        wanted = probabilities(sampler.scores(rows[index], history))
        if rng.random() * guessed[token] >= wanted[token]:
            # What the guess left out; rounding can leave nothing where the two agree, and then either serves.
            missing = np.maximum(wanted - guessed, 0.0)
            history.append(_taken(draw(missing if missing.any() else wanted, rng), rule))
            return index
        history.append(_taken(token, rule))
        if history[-1] != token:
            return index
    last = probabilities(sampler.scores(rows[len(draft.tokens)], history))
    history.append(_taken(draw(last, rng), rule))
    return len(draft.tokens)


def _taken(token: int, rule: TokenRule | None) -> int:
    return token if rule is None else rule.take(token)
