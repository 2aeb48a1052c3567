"""Golden vectors: what this bundle must say wherever it runs, written at export and replayed by ``edgec verify``.

Token vectors pin the tokenizer and the chat template, output vectors pin the artifact. Logits are compared with a
tolerance because another instruction set rounds differently; tokens are compared exactly, save where the two best
logits were closer than the tolerance.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from edgec.bundle.entry_points import EncoderDecoderInfo
from edgec.bundle.golden_texts import ChatVector, TextVector
from edgec.bundle.limited_json import JsonKind, read_model
from edgec.bundle.part import JsonCount, JsonPart, JsonSize, TokenId

GOLDEN_VERSION = 1
GOLDEN_SOURCE_TOKENS = 16
"""Tokens that the encoder of an encoder-decoder reads before an output vector: `probe_values` of the vocabulary."""
TOP = 8
# Shares of the largest value. 1 % covers another order of summation, and 8-bit activations that round the other way on
# another instruction set; 3 % is what the ladder allows float16, whose sums a Neural Engine rounds in its own way.
TOLERANCE, HALF_TOLERANCE = 0.01, 0.03
# The interpreter that stands in for the unit repeats its arithmetic, save for the order of sums: Core AI's float16 lies
# at most 0.6 % from float32 (measured), and edgec's interpreter within 0.2 %.
SIMULATED_SHARE = 0.2
GoldenFloats = NDArray[np.floating[Any]]
GoldenTolerance = Annotated[float, Field(ge=0)]
GoldenShare = Annotated[float, Field(gt=0, le=1)]
_KIND = JsonKind("The golden vectors cannot be read.", "export the model again", "E138", max_bytes=64 << 20)
MAX_VALUES = 1 << 27


class GoldenProbe(JsonPart):
    """The largest logits after the token at ``position`` (0 is the first of the prompt), in the logits' own unit."""

    position: JsonCount
    ids: Annotated[list[TokenId], Field(min_length=1)]
    logits: list[float]

    @model_validator(mode="after")
    def _check(self) -> Self:
        _same_length("logits", self.logits, self.ids)
        return self


class OutputVector(JsonPart):
    """A prompt and its greedy continuation.

    ``margins``: for each continued token, by how much its logit led the second best. ``tolerance``: how far a probed
    logit, or a margin, may move on another machine, in the logits' own unit. ``simulated_share``: the share of it that
    is allowed where an interpreter executes the artifact in place of its own unit, as during export.
    """

    prompt_ids: Annotated[list[TokenId], Field(min_length=1)]
    continuation_ids: Annotated[list[TokenId], Field(min_length=1)]
    margins: list[float]
    probes: list[GoldenProbe]
    tolerance: GoldenTolerance
    simulated_share: GoldenShare = 1.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        _same_length("margins", self.margins, self.continuation_ids)
        return self


class FunctionVector(JsonPart):
    """For a function without states, as encoders are: inputs made by `probe_values`, and some values of each output.

    ``method``: of several; empty: the first. ``bounds``: for integer inputs, the number of values allowed (0..bound-1).
    ``indices`` count along the flat output. ``tolerances``: of each output, by its own size; ``tolerance`` is the
    largest of them. ``value_tolerances``: of each value, by the spread of its channel, so that scores beside boxes are
    compared as scores; of an output whose channels vary alike there are none. ``simulated_share`` as above.
    """

    # Left out where there is none, so that the bundles of other models stay as they were written.
    method: str = Field(default="", exclude_if=lambda value: not value)
    bounds: dict[str, JsonSize]
    indices: dict[str, Annotated[list[JsonCount], Field(min_length=1)]]
    values: dict[str, list[float]]
    tolerance: GoldenTolerance
    tolerances: dict[str, GoldenTolerance] = Field(default_factory=dict)
    value_tolerances: dict[str, list[GoldenTolerance]] = Field(default_factory=dict, exclude_if=lambda value: not value)
    simulated_share: GoldenShare = 1.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name, places in self.indices.items():
            _same_length(f"values.{name}", self.values.get(name, []), places)
            if name in self.value_tolerances:
                _same_length(f"value_tolerances.{name}", self.value_tolerances[name], places)
        return self

    def allowed(self, name: str) -> list[float]:
        """How far each value of an output may move."""
        one = self.tolerances.get(name, self.tolerance)
        return self.value_tolerances.get(name) or [one] * len(self.indices[name])


def _same_length(name: str, values: Sequence[object], wanted: Sequence[object]) -> None:
    if len(values) != len(wanted):
        raise ValueError(f"{name} holds {len(values)} values instead of {len(wanted)}")


class Golden(JsonPart):
    """All vectors of a bundle (``golden.json``)."""

    golden_version: int = GOLDEN_VERSION
    texts: tuple[TextVector, ...] = ()
    chat: ChatVector | None = None
    chats: tuple[ChatVector, ...] = Field(default=(), exclude_if=lambda value: not value)
    outputs: tuple[OutputVector, ...] = ()
    functions: tuple[FunctionVector, ...] = ()


def output_vector(
    prompt_ids: Sequence[int],
    continuation_ids: Sequence[int],
    logits: GoldenFloats,
    relative_tolerance: float = TOLERANCE,
    simulated_share: float = 1.0,
) -> OutputVector:
    """An output vector from the artifact's own execution.

    Args:
        prompt_ids: what was fed first.
        continuation_ids: the greedy tokens that followed.
        logits: float32 [len(continuation_ids), vocabulary]; row i chose ``continuation_ids[i]``, so row 0 belongs to
            the prompt's last position.
        relative_tolerance: ``tolerance`` as a share of the largest absolute logit.
        simulated_share: share of it where an interpreter executes the artifact.

    Raises:
        ValueError: the rows do not fit the continuation, or hold an undefined number.
    """
    if len(logits) != len(continuation_ids) or not len(logits) or not np.isfinite(logits).all():
        raise ValueError("one finite row of logits per continued token is needed")
    best_two = np.sort(logits, axis=-1)[:, -2:]
    rows = sorted({0, len(logits) - 1})
    return OutputVector(
        prompt_ids=list(prompt_ids),
        continuation_ids=list(continuation_ids),
        margins=[float(high - low) for low, high in best_two],
        probes=[probe(logits[row], len(prompt_ids) - 1 + row) for row in rows],
        tolerance=float(relative_tolerance * np.abs(logits).max()),
        simulated_share=simulated_share,
    )


def probe(row: GoldenFloats, position: int) -> GoldenProbe:
    """The `TOP` largest logits of one row [vocabulary], largest first, equal ones by id."""
    order = np.argsort(-row, kind="stable")[:TOP]
    return GoldenProbe(
        position=position, ids=[int(token) for token in order], logits=[float(row[token]) for token in order]
    )


def golden_source(info: EncoderDecoderInfo, vocab_size: int) -> NDArray[Any]:
    """What an encoder reads before a golden vector is written, and whenever it is replayed."""
    shape = info.source_shape(min(GOLDEN_SOURCE_TOKENS, info.source_tokens or GOLDEN_SOURCE_TOKENS))
    return probe_values(shape, "float32" if info.sound_input else "int64", vocab_size)


def probe_values(shape: Sequence[int], dtype: str, bound: int = 0) -> NDArray[Any]:
    """Probe inputs that any language can compute: x[i] = (2654435761 * i + 12345) mod 2**32.

    Args:
        shape: of the input.
        dtype: numpy's name; floats are scaled to [-1, 1), integers taken modulo ``bound``.
        bound: number of allowed integer values; 0 allows only 0.

    Raises:
        ValueError: there would be more than `MAX_VALUES`, or numpy has no such dtype.
    """
    count = math.prod(shape)
    if count > MAX_VALUES:
        raise ValueError(f"an input of {count:,} values is beyond {MAX_VALUES:,}")
    raw = (np.arange(count, dtype=np.uint64) * np.uint64(2654435761) + np.uint64(12345)) % np.uint64(1 << 32)
    if np.issubdtype(np.dtype(dtype), np.floating):
        return np.asarray(raw / float(1 << 31) - 1.0).astype(dtype).reshape(shape)
    return np.asarray(raw % np.uint64(max(bound, 1))).astype(dtype).reshape(shape)


def golden_bytes(golden: Golden) -> bytes:
    """The content of golden.json; equal vectors give equal bytes."""
    return (json.dumps(golden.model_dump(mode="json"), ensure_ascii=False, allow_nan=False, indent=1) + "\n").encode()


def read_golden(path: Path) -> Golden:
    """Read the golden vectors of a bundle.

    Raises:
        InputError: E138, it cannot be read or has another version.
    """
    golden = read_model(path, Golden, _KIND)
    if golden.golden_version != GOLDEN_VERSION:
        why = f"it has version {golden.golden_version}, this edgec reads {GOLDEN_VERSION}"
        raise _KIND.refusal(path, why)
    return golden
