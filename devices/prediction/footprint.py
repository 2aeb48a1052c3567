"""The bytes that a model will take (artifact, KV cache, peak memory), computed from its shapes before it exists."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import groupby

from edgec.devices.prediction.estimate import Range
from edgec.devices.prediction.parameters import EncoderShape, Kind, Parameter
from edgec.ir.kernel_grids import DYNAMIC_INT8_KERNELS, LINEAR_KERNELS, fit
from edgec.ir.spec import LayerSpec, ModelSpec
from edgec.ir.weight_scheme import SchemeRule, WeightScheme, fit_tables, stored_bytes

SIZE_TOLERANCE = 1.05
"""Bounds the artifact from above: an export that exceeds the sum of its bits by more is refused."""

OWN_KERNELS = "edgec_linear"
"""What multiplies integers on CPUs unless a recipe asks for standard kernels; elsewhere a backend's name says it."""

_COPIES_EMBEDDING = (("pte", "vulkan"),)
"""Formats and kernels that store a tied embedding twice: as a lookup table, and as a matrix packed for the kernels."""

_SHARES_EQUAL_BITS = (("pte", "xnnpack"), ("pte", OWN_KERNELS))
"""Formats and kernels that store a tied embedding once where it has the bits of the lm_head, and twice elsewhere."""

_PACKS = {"xnnpack": 1, OWN_KERNELS: 16}
"""The fewest bits of the matrices that kernels repack at load and keep in memory in addition to the file."""

_GRIDS = {"xnnpack": DYNAMIC_INT8_KERNELS, OWN_KERNELS: LINEAR_KERNELS}
"""The weight forms that kernels read; kernels without an entry store what is asked for."""


@dataclass(frozen=True)
class Widths:
    """How many bits each kind of number in a model has.

    Attributes:
        weight_bits: of linear layers; 16 and 32 are floats.
        group_size: weights that share a scale along a row; 0 for one scale per row.
        embedding_bits: of embedding tables.
        lm_head_bits: of the lm_head.
        kv_bits: of cached keys and values: 4, 8, 16 or 32.
        kv_boundary: how many of the first layers have their own keys and values, a count or a share; None: all.
        schemes: the forms in which a recipe stores each kind; a kind whose bits were changed since has the usual one.
        rules: the recipe's own forms for parameters of certain names, as long as the linear layers have its bits.
        standard_kernels: on CPUs the kernels of every ExecuTorch app instead of edgec's own.
        float_inputs: matrices of integers read activations in float where those of 8 bits are usual.
        told: what is said of the matrices in place of their bits and rules; empty: these.
    """

    weight_bits: int = 4
    group_size: int = 32
    embedding_bits: int = 8
    lm_head_bits: int = 8
    kv_bits: int = 32
    kv_boundary: float | int | str | None = None
    schemes: Mapping[Kind, WeightScheme] = field(default_factory=dict)
    rules: tuple[SchemeRule, ...] = ()
    standard_kernels: bool = False
    float_inputs: bool = False
    told: str = ""

    def __str__(self) -> str:
        share = f" group {self.group_size}" if self.group_size else " per channel"
        weights = f"{self.weight_bits}-bit" + share * (self.weight_bits < 16)
        told = self._told(Kind.LINEAR)
        weights = ", ".join(["weights " + str(told or weights), *_of_rules(self.rules if told else ())])
        weights = self.told or weights
        rest = f"lm_head {self.lm_head_bits}-bit, embedding {self.embedding_bits}-bit, KV {self.kv_bits}-bit"
        rest += "" if self.kv_boundary is None else f", KV shared after {self.kv_boundary} of the layers"
        return f"{weights}, {rest}" + ", activations in float" * self.float_inputs

    def bits_of(self, kind: Kind) -> int:
        """Bits of one weight of a kind that no rule names; norms and biases stay in float."""
        bits = {Kind.LINEAR: self.weight_bits, Kind.LM_HEAD: self.lm_head_bits, Kind.EMBEDDING: self.embedding_bits}
        return bits.get(kind, 32)

    def is_told(self, kind: Kind) -> bool:
        """Whether a kind is stored as a recipe says, which is checked with the recipe."""
        return self._told(kind) is not None

    def scheme_of(self, parameter: Parameter) -> WeightScheme | None:
        """The form that a parameter is asked for in; None for floats of ``bits_of`` its kind."""
        if len(parameter.shape) < 2:
            return None
        told = self._told(parameter.kind)
        if told is None:
            return _usual_scheme(parameter.kind, self.bits_of(parameter.kind), self.group_size)
        rules = self.rules if self.is_told(Kind.LINEAR) else ()
        return next((scheme for pattern, scheme in rules if fnmatchcase(parameter.name, pattern)), told)

    def _told(self, kind: Kind) -> WeightScheme | None:
        scheme = self.schemes.get(kind)
        return scheme if scheme is not None and scheme.bits == self.bits_of(kind) else None


def _of_rules(rules: Sequence[SchemeRule]) -> Iterator[str]:
    """The patterns of the rules, those of the same bits together."""
    for form, alike in groupby(rules, lambda rule: f"{rule[1].bits}-bit" if rule[1] else "float"):
        yield f"{' '.join(pattern for pattern, _ in alike)} in {form}"


def _usual_scheme(kind: Kind, bits: int, group_size: int) -> WeightScheme | None:
    """Integers where no recipe says how they are stored: groups for linear layers, a scale per row for the others."""
    grouped = group_size if kind is Kind.LINEAR else 0
    return WeightScheme(bits, grouped, scale_bits=16 if grouped else 32) if bits < 16 else None


@dataclass(frozen=True)
class MemoryPart:
    """One part of a model's size or memory, such as the KV cache."""

    name: str
    bytes: int


@dataclass(frozen=True)
class Footprint:
    """The bytes of a model on one target.

    Attributes:
        parts: weights by kind, KV cache and activations, the biggest first.
        read_bytes: weights that one decoded token reads.
        size_bytes: of the artifact; bounds, not quantiles.
        kv_bytes: of the KV cache at full context.
        state_bytes: of what recurrences remember, at any length of the text.
        peak_bytes: low counts everything once; high adds packed copies of matrices, whole attention scores, what
            recurrences write beside their inputs, and where an encoder's operators write to places of their own.
    """

    parts: tuple[MemoryPart, ...]
    read_bytes: int
    size_bytes: Range
    kv_bytes: int
    state_bytes: int
    peak_bytes: Range


def footprint(
    listed: Iterable[Parameter],
    spec: ModelSpec,
    widths: Widths,
    *,
    format: str,
    backend: str,
    context: int,
    prefill_chunk: int,
    state_bytes: int = 0,
    encoder: EncoderShape | None = None,
    adapter_bytes: int = 0,
) -> Footprint:
    """Compute the bytes of a decoder with these parameters and layers; ``format`` and ``backend`` are the target's.

    The cache holds ``context`` tokens, recurrences ``state_bytes``, and a prefill call takes ``prefill_chunk`` tokens.
    An encoder's parameters and what a decoder keeps of its states are counted, too. Its activations and the decoder's
    are kept apart: each method of an artifact has planned memory of its own, which stays once it was touched.
    ``adapter_bytes`` are those of adapters in the artifact.
    """
    listed, kernels, encoder = tuple(listed), kernels_of(backend, widths), encoder or EncoderShape(0)
    weights = _weight_parts((*listed, *encoder.parameters), widths, format, kernels)
    size = sum(part.bytes for part in weights) + adapter_bytes
    cache = kv_bytes(spec, widths.kv_bits, context, prefill_chunk)
    source, encoding = 4 * encoder.memory_values, encoder.activation_bytes or 0
    activations = _activation_bytes(listed, prefill_chunk) + encoding
    separate = max(0, encoder.most_activation_bytes - encoding)
    scores = max((layer.heads for layer in spec.layers), default=0) * prefill_chunk * context * 4
    packed = sum(p.bytes for p in weights if _is_packed(str(p.name), widths, kernels))
    held = cache + state_bytes + source
    # A convolution of the projection's width, then queries, keys and values apart: measured 9 MB for Qwen3.5-0.8B.
    beside = 2 * _activation_bytes(listed, prefill_chunk) if state_bytes else 0
    low, high = size + held + activations, size + packed + held + activations + separate + scores + beside
    parts = (
        *weights,
        MemoryPart("adapters", adapter_bytes),
        MemoryPart("KV cache", cache),
        MemoryPart("states of recurrences", state_bytes),
        MemoryPart("keys and values of the source", source),
        MemoryPart("activations", activations),
        MemoryPart("packed copy of matrices", packed),
    )
    return Footprint(
        parts=tuple(sorted((part for part in parts if part.bytes), key=lambda part: -part.bytes)),
        read_bytes=read_bytes(listed, widths, kernels),
        size_bytes=Range(size, size, size * SIZE_TOLERANCE, None),
        kv_bytes=cache,
        state_bytes=state_bytes,
        peak_bytes=Range(low, (low + high) / 2, high, None),
    )


def kernels_of(backend: str, widths: Widths) -> str:
    """What reads matrices of integers on a backend: edgec's own kernels or XNNPACK on CPUs, elsewhere the backend."""
    return OWN_KERNELS if backend == "xnnpack" and not widths.standard_kernels else backend


def _is_packed(kind: str, widths: Widths, kernels: str) -> bool:
    """Whether the kernels repack the matrices of a kind."""
    return kind in (Kind.LINEAR, Kind.LM_HEAD) and widths.bits_of(Kind(kind)) >= _PACKS.get(kernels, 64)


def kv_bytes(spec: ModelSpec, bits: int, tokens: int, prefill_chunk: int = 1) -> int:
    """Bytes of cached keys and values for a number of tokens.

    Layers with a window hold at most window - 1 + chunk slots; layers that read a donor's cache hold none. 8-bit values
    add a float16 scale and offset per token and head, 4-bit values per 32 of them.
    """
    return sum(_layer_kv_bytes(layer, bits, tokens, prefill_chunk) for layer in spec.layers if layer.kv_donor is None)


def _layer_kv_bytes(layer: LayerSpec, bits: int, tokens: int, prefill_chunk: int) -> int:
    slots = min(tokens, layer.window - 1 + prefill_chunk) if layer.window else tokens
    grids = {8: 1, 4: max(1, layer.head_dim // 32)}.get(bits, 0)
    per_head = layer.head_dim * bits // 8 + 4 * grids
    return 2 * slots * layer.kv_heads * per_head


def read_bytes(listed: Iterable[Parameter], widths: Widths, kernels: str) -> int:
    """Bytes of weights that one decoded token reads: one row of embeddings, and only the chosen experts."""
    return round(sum(parameter_bytes(p, widths, kernels) * p.active for p in listed))


def parameter_bytes(parameter: Parameter, widths: Widths, kernels: str) -> int:
    """Bytes of one stored tensor: tables and indices, integers and scales, or floats."""
    asked = widths.scheme_of(parameter)
    if asked is None:
        told = widths.is_told(parameter.kind)  # and left in float by a rule
        return parameter.count * (32 if told else widths.bits_of(parameter.kind)) // 8
    return scheme_bytes(parameter, asked, kernels)


def scheme_bytes(parameter: Parameter, asked: WeightScheme, kernels: str) -> int:
    """Bytes of a tensor in the nearest form to the asked one that its kernels read."""
    return _scheme_bytes(parameter.shape, parameter.kind, asked, kernels)


@lru_cache(maxsize=4096)
def _scheme_bytes(shape: tuple[int, ...], kind: Kind, asked: WeightScheme, kernels: str) -> int:
    """Matrices of all layers have few shapes."""
    width, count = shape[-1], math.prod(shape)
    rows = count // width
    if asked.is_table:
        used = fit_tables(asked, rows)[0] if len(shape) == 2 else _usual_scheme(kind, asked.bits, 0)
        return stored_bytes((rows, width), used or asked)
    grids = None if kind is Kind.EMBEDDING or asked.stored else _GRIDS.get(kernels)
    fitted = fit(asked, width, grids)[0] if grids else asked
    return stored_bytes((rows, width), fitted) if fitted else count * 4


def _weight_parts(listed: tuple[Parameter, ...], widths: Widths, format: str, kernels: str) -> list[MemoryPart]:
    sizes = dict.fromkeys(Kind, 0)
    for parameter in listed:
        sizes[parameter.kind] += parameter_bytes(parameter, widths, kernels)
        if parameter.tied and _copied(widths, (format, kernels)):
            table = Parameter(parameter.name, parameter.shape, Kind.EMBEDDING)
            sizes[Kind.EMBEDDING] += parameter_bytes(table, widths, kernels)
    return [MemoryPart(str(kind), size) for kind, size in sizes.items()]


def _copied(widths: Widths, stored_as: tuple[str, str]) -> bool:
    """Whether a tied embedding is stored twice."""
    return stored_as in _COPIES_EMBEDDING or (
        stored_as in _SHARES_EQUAL_BITS and widths.embedding_bits != widths.lm_head_bits
    )


def _activation_bytes(listed: tuple[Parameter, ...], prefill_chunk: int) -> int:
    """Bytes of activations: input and output of the widest layer for one chunk, and one row of logits, in float32."""
    matrices = [p.shape for p in listed if p.kind is Kind.LINEAR]
    widest = max((shape[-1] + shape[-2] for shape in matrices), default=0)
    logits = max((p.shape[0] for p in listed if p.kind is Kind.LM_HEAD), default=0)
    return 4 * (prefill_chunk * widest + logits)
