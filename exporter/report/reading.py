"""What the float model and the bundle say, for the report: a short text of each, or their next tokens along a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

from torch import Tensor

from edgec.exporter.parity.sample import Sample
from edgec.exporter.report.parts import section

if TYPE_CHECKING:
    from edgec.runtime_py.generation.generate import Decode

_SHOWN = 48
_LEAD = 24


@dataclass(frozen=True)
class NextTokens:
    """The likeliest next token at consecutive places of a text, of two forms of a model.

    Attributes:
        before: the tokens of the text up to the first place.
        float_tokens: what the float model would say at each place.
        bundle_tokens: what the compressed one would say there.
        same: at how many of all compared places both would say the same, near ties included.
        places: how many were compared.
    """

    before: tuple[int, ...]
    float_tokens: tuple[int, ...]
    bundle_tokens: tuple[int, ...]
    same: int = 0
    places: int = 0


def next_tokens(tokens: Sequence[int], positions: Sequence[int], logits: Mapping[str, Tensor]) -> NextTokens | None:
    """The likeliest tokens at the last consecutive compared positions, at most 48; None where there are too few.

    Args:
        tokens: the probe.
        positions: those whose logits were compared, ascending.
        logits: ``reference`` and ``final``, float32 [positions, vocabulary].
    """
    kinds = ("reference", "final")
    if any(name not in logits or logits[name].dim() != 2 for name in kinds) or not positions:
        return None
    gaps = [index + 1 for index, (a, b) in enumerate(pairwise(positions)) if b != a + 1]
    first = max(gaps[-1] if gaps else 0, len(positions) - _SHOWN)
    every = {name: logits[name].argmax(-1) for name in kinds}
    same = int((every["reference"] == every["final"]).sum())
    said = {name: tuple(every[name][first:].tolist()) for name in kinds}
    start = positions[first] + 1
    before = tuple(tokens[max(0, start - _LEAD) : start])
    return NextTokens(before, said["reference"], said["final"], same, len(positions))


def texts(sample: Sample | None, decode: Decode | None) -> str:
    """The section with a short text of each form; "" where none was made."""
    if sample is None or decode is None or not sample.bundle_tokens:
        return ""
    pairs = zip(sample.float_tokens, sample.bundle_tokens, strict=True)
    same = next((i for i, (ours, theirs) in enumerate(pairs) if ours != theirs), len(sample.bundle_tokens))
    count = len(sample.bundle_tokens)
    outcome = (
        f"all {count} tokens are the same" if same == count else f"the first {same} of {count} tokens are the same"
    )
    cards = "".join(
        f'<div><h3>{name}</h3><p class="reading">{_text(sample.start, tokens, same, decode)}</p></div>'
        for name, tokens in (("the float model", sample.float_tokens), ("this bundle", sample.bundle_tokens))
    )
    about = f"<p>Each continues the same words with its likeliest tokens: {outcome}.</p>"
    return section("What it says", about, f'<div class="pair">{cards}</div>')


def _text(start: Sequence[int], tokens: Sequence[int], same: int, decode: Decode) -> str:
    """A continued text; what follows the first difference is marked."""
    whole, shared, lead = (decode([*start, *tokens[:end]]) for end in (len(tokens), same, 0))
    ends = len(shared) if whole.startswith(shared) else len(lead)
    other = f"<mark>{escape(whole[ends:])}</mark>" if whole[ends:] else ""
    return f'<span class="dim">{escape(lead)}</span>{escape(whole[len(lead) : ends])}{other}'


def reading(made: NextTokens | None, decode: Decode | None) -> str:
    """The section with both readings side by side; "" without a tokenizer."""
    if made is None or decode is None:
        return ""
    pairs = list(zip(made.float_tokens, made.bundle_tokens, strict=True))
    same = sum(a == b for a, b in pairs)
    lead = f'<span class="dim">… {escape(decode(list(made.before)))}</span>'
    texts = (
        ("the float model", _marked(made.float_tokens, made.bundle_tokens, made.before[-1:], decode)),
        ("this bundle", _marked(made.bundle_tokens, made.float_tokens, made.before[-1:], decode)),
    )
    cards = "".join(f'<div><h3>{name}</h3><p class="reading">{lead}{text}</p></div>' for name, text in texts)
    about = (
        "<p>Both read the same text; after each of its tokens they were asked for the next one. Below are their "
        f"answers, one token per position: {same} of {len(pairs)} are the same, the others are marked.</p>"
    )
    return section("What it says", about, f'<div class="pair">{cards}</div>')


def _marked(own: Sequence[int], other: Sequence[int], anchor: Sequence[int], decode: Decode) -> str:
    """The text of ``own``; each token after ``anchor``, since tokenizers drop the space of a first word."""
    skip = len(decode(list(anchor)))
    texts = (escape(decode([*anchor, token])[skip:]) for token in own)
    marked = zip(texts, own, other, strict=True)
    return "".join(text if mine == yours else f"<mark>{text or '·'}</mark>" for text, mine, yours in marked)
