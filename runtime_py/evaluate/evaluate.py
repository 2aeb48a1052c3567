"""A bundle's perplexity on a text, and its distance from the float model: teacher-forced, position by position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgec.bundle.encoding import token_ids
from edgec.bundle.folder import Bundle
from edgec.devices.simulators import simulator_of
from edgec.errors import InputError
from edgec.runtime_py.decoding.forced_text import forced_rows, log_softmax
from edgec.runtime_py.decoding.stepper import Stepper
from edgec.runtime_py.evaluate.intervals import Interval, bits_per_byte, perplexity_interval, ratio_interval
from edgec.runtime_py.evaluate.reference import OpenReference, ReferenceModel, reference_for
from edgec.runtime_py.model import Model, load
from edgec.runtime_py.sessions.session import decoder_limits
from edgec.runtime_py.structured.rule import Vector
from edgec.runtime_py.vision_language.session import refuse_without_images

FIRST_BUCKET = 16


@dataclass(frozen=True)
class Scores:
    """The scores of a text, one value per predicted token.

    Attributes:
        position: the position of the token that predicts.
        nll: negative log-likelihood of the text's next token, nats.
        reference_nll: the float model's; kl: KL(float || bundle), nats; agree: same top-1. NaN without a reference.
    """

    position: NDArray[np.int64]
    nll: NDArray[np.float64]
    reference_nll: NDArray[np.float64]
    kl: NDArray[np.float64]
    agree: NDArray[np.float64]


@dataclass(frozen=True)
class Bucket:
    """Means over the predictions made at positions ``first``..``last``; None is unavailable."""

    first: int
    last: int
    predictions: int
    nll: float
    perplexity: float
    reference_nll: float | None
    kl_mean: float | None
    kl_max: float | None
    top1_agreement: float | None


@dataclass(frozen=True)
class Evaluation:
    """A text's result. ``overall`` spans all positions, ``buckets`` double in width.

    Attributes:
        perplexity: over all positions, with its interval.
        ratio: the bundle's perplexity over the float model's, with its interval; None without a reference.
        bits_per_byte: loss per byte of the text that was predicted.
        reference_bits_per_byte: the float model's.
        simulator: the name of what executed the artifact in place of its own unit; empty where all is measured.
        adapter: the digest of the adapter that was added; empty without one.
    """

    bundle: str
    digest: str
    text: str
    reference: str | None
    overall: Bucket
    buckets: tuple[Bucket, ...]
    perplexity: Interval
    ratio: Interval | None = None
    bits_per_byte: float | None = None
    reference_bits_per_byte: float | None = None
    simulator: str = ""
    adapter: str = ""

    @property
    def obtained(self) -> str:
        """How the figures were obtained."""
        return f"simulated by {self.simulator}" if self.simulator else "measured"

    def to_json(self) -> dict[str, Any]:
        """The evaluation as plain data: nats, probabilities 0..1; null is unavailable."""
        return {"schema_version": 1, "obtained": self.obtained, **asdict(self)}


def evaluate(
    bundle: Path | str,
    text: Path,
    *,
    tokens: int = 4096,
    reference: str | None = None,
    threads: int | None = None,
    adapter: Path | None = None,
    say: Callable[[str], None] | None = None,
    opens: OpenReference | None = None,
) -> Evaluation:
    """Measure perplexity on a text, and the distance from the float model where there is one.

    The text is cut into windows of the context's length, each of which is predicted from an empty cache.

    Args:
        bundle: the bundle folder.
        text: a UTF-8 text file.
        tokens: the most tokens of the text to use.
        reference: folder or hub id of the float model; None takes the bundle's source where that is a local folder.
        threads: CPU threads of the runtime.
        adapter: the file of an adapter for this bundle, which is added.
        say: told about the progress.
        opens: opens the float model; None: transformers alone (``exporter.stages.stored_reference`` knows GGUF, too).

    Raises:
        InputError: E155 not a decoder, E657 one that answers about images only, E156 ``tokens`` below 1, E158 no
            tokenizer, E164 no usable text, E165 no usable reference; E695 or E696, the adapter is at fault.
        ToolError: E697, an adapter needs edgec's engine.
    """
    if tokens < 1:
        raise InputError(f"tokens is {tokens}.", where="--tokens", fix="give 2 or more", code="E156")
    model = load(bundle, threads)
    _check_reads_text(model.bundle)
    model.adapter = adapter
    windows = text_windows(model, text, tokens)
    floats = reference_for(model.bundle, reference, opens)
    scores = _score_windows(model.session, windows, floats, say or (lambda _: None))
    size = sum(len(model.decode(window[1:]).encode()) for window in windows)
    return Evaluation(
        bundle=model.bundle.manifest.name,
        digest=model.bundle.manifest.digest,
        text=text.name,
        reference=floats.name if floats else None,
        overall=_bucket(scores, 0, int(scores.position.max())),
        buckets=tuple(_bucket(scores, first, last) for first, last in bucket_ranges(int(scores.position.max()))),
        perplexity=perplexity_interval(scores.nll),
        ratio=ratio_interval(scores.nll, scores.reference_nll) if floats else None,
        bits_per_byte=bits_per_byte(scores.nll, size),
        reference_bits_per_byte=bits_per_byte(scores.reference_nll, size) if floats else None,
        simulator=simulator_of(model.bundle.manifest),
        adapter=model.session.cache.adapter,
    )


def _check_reads_text(bundle: Bundle) -> None:
    """Refuse what does not continue text alone."""
    images = bundle.manifest.vision_language
    if images is None:
        decoder_limits(bundle)
    else:
        refuse_without_images(images)


def _score_windows(
    stepper: Stepper, windows: Sequence[Sequence[int]], reference: ReferenceModel | None, say: Callable[[str], None]
) -> Scores:
    parts = []
    for i, window in enumerate(windows):
        say(f"window {i + 1} of {len(windows)}")
        parts.append(score_window(stepper, window, reference))
    return Scores(*(np.concatenate([getattr(p, name) for p in parts]) for name in Scores.__dataclass_fields__))


def text_windows(model: Model, text: Path, tokens: int) -> list[list[int]]:
    """Cut the text into windows of token ids, at most the context long; each begins with the leading token, if any.

    Raises:
        InputError: E164, the file cannot be read or holds fewer than two tokens.
    """
    try:
        content = text.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        raise InputError("The text cannot be read.", str(text), str(cause), "give a UTF-8 text file", "E164") from cause
    ids = token_ids(model.tokenizer, content, special=False)[:tokens]
    with_special = model.encode(content[:64])
    lead = with_special[:1] if with_special and with_special[0] == model.tokenizer.bos_token_id else []
    step = model.session.limits.context - len(lead)
    windows = [[*lead, *ids[i : i + step]] for i in range(0, len(ids), step)]
    usable = [window for window in windows if len(window) >= 2]
    if not usable:
        raise InputError("The text is too short.", str(text), fix="give at least two tokens of text", code="E164")
    return usable


def score_window(stepper: Stepper, tokens: Sequence[int], reference: ReferenceModel | None) -> Scores:
    """Score the predictions of ``tokens[1:]``."""
    floats = reference.logits(tokens) if reference else None
    pieces = []
    for start, logits in forced_rows(stepper, tokens[:-1]):
        targets = np.asarray(tokens[start + 1 : start + 1 + len(logits)])
        other = None if floats is None else floats[start : start + len(logits)]
        pieces.append(_score_rows(start, logits, targets, other))
    return Scores(*(np.concatenate(column) for column in zip(*pieces, strict=True)))


def _score_rows(start: int, logits: Vector, targets: NDArray[Any], floats: Vector | None) -> tuple[NDArray[Any], ...]:
    rows = np.arange(len(targets))
    logprobs = log_softmax(logits)
    nan = np.full(len(targets), np.nan)
    if floats is None:
        return start + rows, -logprobs[rows, targets], nan, nan, nan
    reference = log_softmax(floats)
    kl = (np.exp(reference) * (reference - logprobs)).sum(axis=1)
    agree = (logprobs.argmax(axis=1) == reference.argmax(axis=1)).astype(np.float64)
    return start + rows, -logprobs[rows, targets], -reference[rows, targets], kl, agree


def bucket_ranges(last: int) -> list[tuple[int, int]]:
    """The ranges of positions 0..15, 16..31, 32..63, ... up to ``last``."""
    edges = [0, FIRST_BUCKET]
    while edges[-1] <= last:
        edges.append(2 * edges[-1])
    return [(a, min(b - 1, last)) for a, b in pairwise(edges) if a <= last]


def _bucket(scores: Scores, first: int, last: int) -> Bucket:
    inside = (scores.position >= first) & (scores.position <= last)
    nll = float(scores.nll[inside].mean())
    known = bool(np.isfinite(scores.kl[inside]).all())
    return Bucket(
        first=first,
        last=last,
        predictions=int(inside.sum()),
        nll=nll,
        perplexity=float(np.exp(nll)),
        reference_nll=float(scores.reference_nll[inside].mean()) if known else None,
        kl_mean=float(scores.kl[inside].mean()) if known else None,
        kl_max=float(scores.kl[inside].max()) if known else None,
        top1_agreement=float(scores.agree[inside].mean()) if known else None,
    )
