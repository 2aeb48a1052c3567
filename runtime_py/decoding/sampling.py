"""From logits to the next token.

The order is that of transformers' ``generate``: repetition penalty, temperature, top-k, top-p, min-p; each step masks
logits with -inf and the next one sees the masked distribution. Temperature 0 is greedy: penalties, then the largest.
Tokens that a structured text may not hold are masked before all of these. OpenAI's penalties and biases come before the
temperature, too: its reference says that they are added to the logits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgec.errors import InputError
from edgec.runtime_py.structured.rule import TokenRule, Vector

# Beyond these, logits of float32 divided or multiplied by a number become infinite or nothing.
_FEWEST, _MOST = 1e-12, 1e12
_LARGEST_PENALTY, _LARGEST_BIAS, _BANNED = 2, 100, -100
_MOST_BIASES = 1024
_RANGES: Mapping[str, tuple[type, Callable[[Any], bool], str]] = {
    "temperature": (Real, lambda value: value == 0 or _FEWEST <= value <= _MOST, "0 (greedy), or 1e-12 to 1e12"),
    "top_k": (Integral, lambda value: value >= 0, "a whole number, 0 (all) or more"),
    "top_p": (Real, lambda value: 0 < value <= 1, "above 0, at most 1"),
    "min_p": (Real, lambda value: 0 <= value <= 1, "0 to 1"),
    "repetition_penalty": (Real, lambda value: _FEWEST <= value <= _MOST, "1e-12 to 1e12 (1 is none)"),
    "seed": (Integral, lambda value: value >= 0, "a whole number, 0 or more"),
    "presence_penalty": (Real, lambda value: abs(value) <= _LARGEST_PENALTY, "-2 to 2 (0 is none)"),
    "frequency_penalty": (Real, lambda value: abs(value) <= _LARGEST_PENALTY, "-2 to 2 (0 is none)"),
}
# Of 152,000 tokens; most distributions of language models reach 0.95 with fewer.
_SORTED_AT_FIRST = 1024


@dataclass(frozen=True)
class Sampling:
    """The options for choosing a token; the defaults are greedy.

    Attributes:
        temperature: 0 for greedy, else logits are divided by it.
        top_k: keep the k largest (ties at the k-th stay); 0 keeps all.
        top_p: keep the smallest set whose probability reaches p; 1 keeps all.
        min_p: drop tokens less likely than ``min_p`` times the most likely one; 0 keeps all.
        repetition_penalty: divides positive and multiplies negative logits of tokens seen before (arXiv:1909.05858).
        seed: makes the draws reproducible; None draws from the system's entropy.
        presence_penalty: subtracted from the logits of tokens that the answer has already (OpenAI's; -2 to 2).
        frequency_penalty: the same, times how often the answer has them.
        logit_bias: added to the logits of tokens, -100 to 100; -100 bans one.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse values outside their range.

        Raises:
            InputError: E156.
        """
        for name, (kind, valid, allowed) in _RANGES.items():
            value = getattr(self, name)
            allows_none = value is None and name == "seed"
            if isinstance(value, bool) or not (allows_none or (isinstance(value, kind) and valid(value))):
                raise InputError(f"{name} is {value!r:.60}.", where=name, fix=f"give {allowed}", code="E156")
        few = len(self.logit_bias) <= _MOST_BIASES
        if not few or not all(abs(bias) <= _LARGEST_BIAS for bias in self.logit_bias.values()):
            fix = f"give at most {_MOST_BIASES} tokens, each -{_LARGEST_BIAS} to {_LARGEST_BIAS}"
            raise InputError("The biases of tokens are out of range.", where="logit_bias", fix=fix, code="E156")

    def with_seed(self, further: int) -> Sampling:
        """The options of one more answer to the same prompt: another draw, which an equal seed repeats."""
        return self if self.seed is None or not further else replace(self, seed=self.seed + further)


def penalise_repetition(logits: Vector, seen: Sequence[int], penalty: float) -> Vector:
    """Make tokens in ``seen`` less likely; ``logits`` [vocabulary] stays as it is."""
    if penalty == 1.0 or not seen:
        return logits
    ids = np.unique(np.asarray(seen))
    out = logits.copy()
    out[ids] = np.where(out[ids] < 0, out[ids] * penalty, out[ids] / penalty)
    return out


def penalise_answer(logits: Vector, answer: Sequence[int], sampling: Sampling) -> Vector:
    """Subtract the penalties of tokens that the answer has, and add biases; ``logits`` [vocabulary] stays as it is."""
    penalised = answer and (sampling.presence_penalty or sampling.frequency_penalty)
    if not penalised and not sampling.logit_bias:
        return logits
    out = logits.copy()
    if penalised:
        ids, counts = np.unique(np.asarray(answer), return_counts=True)
        out[ids] -= (sampling.presence_penalty + sampling.frequency_penalty * counts).astype(out.dtype)
    for token, bias in sampling.logit_bias.items():
        if 0 <= token < len(out):
            out[token] = -np.inf if bias == _BANNED else out[token] + bias
    return out


def keep_top_k(logits: Vector, k: int) -> Vector:
    """Mask everything below the k-th largest logit."""
    if k <= 0 or k >= logits.size:
        return logits
    threshold = np.partition(logits, -k)[-k]
    return np.where(logits < threshold, -np.inf, logits)


def keep_top_p(logits: Vector, p: float) -> Vector:
    """Mask all but the most likely tokens that together reach probability ``p``; the likeliest always stays.

    The others are masked from the least likely on, of equals the earlier ones first. Only those that reach ``p`` are
    sorted: where a few hundred of 152,000 tokens do, that takes a tenth of the time of sorting them all.
    """
    if p >= 1.0:
        return logits
    likely = probabilities(logits)
    head, rest = _likeliest(logits, likely, p)
    ascending = head[np.argsort(logits[head], kind="stable")]
    tail = rest + np.cumsum(likely[ascending]) <= 1.0 - p
    tail[-1] = False
    out = np.full_like(logits, -np.inf)
    kept = ascending[~tail]
    out[kept] = logits[kept]
    return out


def _likeliest(logits: Vector, likely: NDArray[np.float64], p: float) -> tuple[NDArray[np.intp], float]:
    """Tokens that reach ``p`` together, with all that are as likely as the last of them; and what the others have."""
    count = min(_SORTED_AT_FIRST, len(logits))
    while True:
        least = np.partition(logits, -count)[-count]
        rest = float(likely[logits < least].sum())
        if rest <= 1.0 - p or count == len(logits):
            return np.flatnonzero((logits >= least) & (likely > 0)), rest
        count = min(16 * count, len(logits))


def keep_min_p(logits: Vector, min_p: float) -> Vector:
    """Mask tokens less likely than ``min_p`` times the most likely one."""
    if min_p <= 0.0:
        return logits
    likely = probabilities(logits)
    return np.where(likely < min_p * likely.max(), -np.inf, logits)


def probabilities(logits: Vector) -> NDArray[np.float64]:
    """Softmax in float64 over [vocabulary]."""
    shifted = np.exp(logits.astype(np.float64) - logits.max())
    return np.asarray(shifted / shifted.sum())


def process_logits(logits: Vector, seen: Sequence[int], sampling: Sampling, answer: Sequence[int] = ()) -> Vector:
    """Apply all steps in order, for greedy decoding only the penalties; ``answer``: of ``seen``, after the prompt."""
    out = penalise_repetition(logits, seen, sampling.repetition_penalty)
    out = penalise_answer(out, answer, sampling)
    if sampling.temperature == 0:
        return out
    out = keep_top_k(out / np.asarray(sampling.temperature, dtype=out.dtype), sampling.top_k)
    return keep_min_p(keep_top_p(out, sampling.top_p), sampling.min_p)


def draw(likely: NDArray[np.float64], rng: np.random.Generator) -> int:
    """Draw one index with the given probabilities; an index of probability 0 is never drawn."""
    cumulative = np.cumsum(likely)
    cumulative /= cumulative[-1]
    return int(np.searchsorted(cumulative, rng.random(), side="right"))


Watch = Callable[[Vector, int], None]


class Sampler:
    """Chooses the tokens of one sequence with its own random generator."""

    def __init__(self, sampling: Sampling, rule: TokenRule | None = None, watch: Watch | None = None) -> None:
        """Choose as ``sampling`` says, among the tokens that ``rule`` allows.

        Args:
            sampling: how.
            rule: None allows all.
            watch: called with the model's own logits [vocabulary] and the token that was chosen.
        """
        self.sampling, self.rule, self._watch = sampling, rule, watch
        self._rng = np.random.default_rng(sampling.seed)
        self._prompt_tokens: int | None = None

    def scores(self, logits: Vector, seen: Sequence[int]) -> Vector:
        """The logits [vocabulary] that a token after ``seen`` is drawn by; what the first call saw is the prompt."""
        if self._prompt_tokens is None:
            self._prompt_tokens = len(seen)
        allowed = logits if self.rule is None else self.rule.mask(logits)
        return process_logits(allowed, seen, self.sampling, seen[self._prompt_tokens :])

    def __call__(self, logits: Vector, seen: Sequence[int]) -> int:
        """Choose the next token after ``seen`` (prompt and generated tokens), given logits [vocabulary]."""
        scores = self.scores(logits, seen)
        token = int(scores.argmax()) if self.sampling.temperature == 0 else draw(probabilities(scores), self._rng)
        token = token if self.rule is None else self.rule.take(token)
        if self._watch is not None:
            self._watch(logits, token)
        return token
