"""Which drafted tokens stay: exactly those that the model itself would have chosen.

Drafts that were not drawn: the model's sampler chooses from each row in turn, and goes on as long as it chooses what
was drafted. It sees the logits and the history that it would see without a draft and draws as many random numbers, so
text is the same token for token, greedy or sampled. A drafted token is right with the probability that the model gives
it, which is also what rejection sampling achieves for such drafts.

Drafts that were drawn from distributions q: token x stays with probability min(1, p(x) / q(x)); the first one that does
not is replaced by a draw from max(p - q, 0), normalised. What comes out is distributed as p (Leviathan et al. 2023,
arXiv 2211.17192, theorem 3.5), where p is what the sampler draws from: after penalty, temperature, top-k, top-p, min-p.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from edgec.runtime_py.sampling import Sampling, draw, probabilities, processed
from edgec.runtime_py.speculation.draft import Distribution, Draft
from edgec.runtime_py.stepper import Logits

Choose = Callable[[Logits, Sequence[int]], int]


def choose_along(rows: Logits, tokens: Sequence[int], history: Sequence[int], choose: Choose) -> list[int]:
    """The tokens chosen along a draft that was not drawn: right ones, then one more.

    Args:
        rows: float32 [len(tokens) + 1, vocabulary]: logits behind the history and behind each drafted token.
        tokens: the draft.
        history: all tokens before it.
        choose: the sampler.

    Returns:
        1 to len(tokens) + 1 tokens; all but the last are the draft's.
    """
    seen, chosen = list(history), 0
    for index, drafted in enumerate([*tokens, None]):
        seen.append(choose(rows[index], seen))
        chosen += 1
        if seen[-1] != drafted:
            break
    return seen[len(seen) - chosen :]


def accept_or_redraw(
    rows: Logits, draft: Draft, history: Sequence[int], sampling: Sampling, rng: np.random.Generator
) -> list[int]:
    """Rejection sampling for a draft that was drawn; arguments and result as in ``choose_along``."""
    assert draft.drawn_from is not None
    seen = list(history)
    for row, token, guessed in zip(rows, draft.tokens, draft.drawn_from, strict=False):
        wanted = probabilities(processed(row, seen, sampling))
        if rng.random() * guessed[token] >= wanted[token]:
            return [*seen[len(history) :], draw(_missing(wanted, guessed), rng)]
        seen.append(token)
    last = probabilities(processed(rows[len(draft.tokens)], seen, sampling))
    return [*seen[len(history) :], draw(last, rng)]


def _missing(wanted: Distribution, guessed: Distribution) -> Distribution:
    """What the guess left out of the wanted distribution, not normalised."""
    missing = np.maximum(wanted - guessed, 0.0)
    # Rounding can leave nothing where the two agree; then either serves.
    return missing if missing.any() else wanted
