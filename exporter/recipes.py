"""A recipe: how a model is made small, as plain data read from TOML.

Recipes know bits and limits; which of them a backend's kernels read is a table of data too. No torch is imported here:
``edgec plan`` reads recipes as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.errors import InputError
from edgec.passes.weight_scheme import DYNAMIC_INT8_KERNELS, LOOKUP_BITS, KernelGrid, WeightScheme

if TYPE_CHECKING:
    from edgec.passes.contract import Pass

Rule = tuple[str, WeightScheme | None]


@dataclass(frozen=True)
class Recipe:
    """How to make an artifact.

    Attributes:
        name: as users type it.
        description: one line.
        weights: linear layers that no rule names; None leaves them in float32.
        lm_head: the vocabulary matrix; None leaves it in float32.
        embedding: embedding tables; None leaves them in float32.
        rules: (pattern on a parameter's name, scheme or None for float32); the first match wins over all above.
        algorithm: how scales are chosen: ``rtn``, ``hqq`` or ``mse``.
        kv_dtype: ``float32``, ``float16``, ``int8`` or, with edgec's kernels, ``int4``.
        sink_tokens: leading tokens that sliding windows keep for ever.
        context: longest sequence, tokens; None for the model's own.
        prefill_chunk: tokens per call.
        logit_rows: positions with logits per call.
        shared_kv: ``reuse``: layers behind the boundary read an earlier layer's keys and values; None: each its own.
        boundary: first layers that keep their own: a count, or a share of all (0..1).
        early_exit: keep the first layers only: a draft model for speculation; None keeps all.
        kernels: ``edgec`` for its own operators, ``standard`` for those that every ExecuTorch app has.
        budgets: limits of the quality check: ``kl_mean`` (nats), ``top1_agreement`` (0..1); empty for the defaults.
    """

    name: str
    description: str = ""
    weights: WeightScheme | None = None
    lm_head: WeightScheme | None = None
    embedding: WeightScheme | None = None
    rules: tuple[Rule, ...] = ()
    algorithm: str = "mse"
    kv_dtype: str = "float32"
    sink_tokens: int = 0
    context: int | None = None
    prefill_chunk: int = 128
    logit_rows: int = 16
    shared_kv: str | None = None
    boundary: float | int = 0.625
    early_exit: int | None = None
    kernels: str = "edgec"
    budgets: Mapping[str, float] = field(default_factory=dict)

    @property
    def weight_bits(self) -> float:
        """Bits per weight of the linear layers, scales of a group included; 32 for float."""
        return bits_per_weight(self.weights)

    def to_json(self) -> dict[str, Any]:
        """As plain data, for the manifest and cache keys."""
        plain = asdict(self)
        plain["rules"] = [{"parameters": pattern, **_rule_json(scheme)} for pattern, scheme in self.rules]
        return plain


def _rule_json(scheme: WeightScheme | None) -> dict[str, Any]:
    return {"float": True} if scheme is None else asdict(scheme)


def bits_per_weight(scheme: WeightScheme | None) -> float:
    """Bits per weight with the group's scale; a per-channel scale is spread over too many weights to count."""
    if scheme is None:
        return 32.0
    return scheme.bits + (scheme.scale_bits / scheme.group_size if scheme.group_size else 0.0)


@dataclass(frozen=True)
class Support:
    """What a backend executes.

    Attributes:
        kernels: matrix kernels with dynamic 8-bit activations.
        lookup_bits: embedding look-ups, any group.
        weight_only: whether float activations with integer weights are trusted.
        why_not: what happens otherwise.
    """

    kernels: tuple[KernelGrid, ...]
    lookup_bits: tuple[int, ...]
    weight_only: bool
    why_not: str


SUPPORT = {
    "xnnpack": Support(
        kernels=DYNAMIC_INT8_KERNELS,
        lookup_bits=LOOKUP_BITS,
        weight_only=False,
        why_not="XNNPACK's partitioner runs weight-only integers without their scales, and refuses layers with a bias",
    )
}


def load_recipe(name_or_path: str | Path) -> Recipe:
    """A named recipe, or one from a TOML file.

    Raises:
        InputError: E175, no such recipe; E171, an unknown key or a bad value in the file.
    """
    from edgec.exporter.recipe_file import read_recipe

    return read_recipe(name_or_path)


def recipe_names() -> tuple[str, ...]:
    """The named recipes."""
    from edgec.exporter.recipe_file import named

    return tuple(named())


def passes_for(recipe: Recipe) -> list[Pass]:
    """The quantising passes a recipe asks for, in order; none for a float recipe."""
    from edgec.passes.quantize import Quantize
    from edgec.passes.quantize_embedding import QuantizeEmbedding

    wanted: list[Pass] = []
    if recipe.weights or recipe.lm_head or any(scheme for _, scheme in recipe.rules):
        wanted.append(Quantize(recipe.rules, recipe.weights, recipe.lm_head, recipe.algorithm))
    if recipe.embedding:
        scheme = recipe.embedding
        wanted.append(QuantizeEmbedding(scheme.bits, scheme.group_size, recipe.algorithm, scheme.scale_bits))
    return wanted


def rounds_weights(recipe: Recipe) -> bool:
    """Whether any quantising pass rounds the model."""
    return any(rewrite.effect == "approximate" for rewrite in passes_for(recipe))


def check_recipe(recipe: Recipe, backend: str, *, allow_unsafe_weight_only: bool = False) -> None:
    """Refuse what a backend cannot execute, before any work is done.

    Args:
        recipe: the recipe.
        backend: a target's backend; those without a table of kernels are not checked here.
        allow_unsafe_weight_only: lets tests feed the parity ladder a lowering that is known to be wrong.

    Raises:
        InputError: E172, with the nearest scheme that the backend does execute.
    """
    support = SUPPORT.get(backend)
    if support is None:
        return
    for place, scheme in _matrix_schemes(recipe):
        _check_kernel(place, scheme, support)
        if scheme.activation_bits == 0 and not (support.weight_only or allow_unsafe_weight_only):
            fix = "set activation_bits = 8 (dynamic, no calibration needed)"
            raise _unsupported(place, "weight-only quantisation", support.why_not, fix)
    asked = recipe.embedding
    if asked and asked.bits not in support.lookup_bits:
        near = min(support.lookup_bits, key=lambda bits: abs(bits - asked.bits))
        why = f"look-ups read {', '.join(map(str, support.lookup_bits))} bits"
        raise _unsupported(f"recipe {recipe.name}, embedding", str(asked), why, f"set bits = {near}")


def _matrix_schemes(recipe: Recipe) -> Iterator[tuple[str, WeightScheme]]:
    places = [("weights", recipe.weights), ("lm_head", recipe.lm_head)]
    places += [(f"rules: {pattern}", scheme) for pattern, scheme in recipe.rules]
    yield from ((f"recipe {recipe.name}, {place}", scheme) for place, scheme in places if scheme is not None)


def _check_kernel(place: str, scheme: WeightScheme, support: Support) -> None:
    legal = [(grid.bits, group) for grid in support.kernels for group in (*grid.groups, 0)]
    if (scheme.bits, scheme.group_size) in legal and scheme.symmetric:
        return
    bits, group = min(legal, key=lambda choice: (abs(choice[0] - scheme.bits), _apart(choice[1], scheme.group_size)))
    read = "; ".join(f"{grid.bits} bits: group {', '.join(map(str, (*grid.groups, 0)))}" for grid in support.kernels)
    raise _unsupported(place, str(scheme), f"its kernels read {read}", f"set bits = {bits} and group_size = {group}")


def _apart(group: int, other: int) -> float:
    """Distance of two group sizes; per channel counts as a very large group."""
    return abs((group or 1 << 20) - (other or 1 << 20))


def _unsupported(place: str, what: str, why: str, fix: str) -> InputError:
    return InputError(what=f"the target does not execute {what}", where=place, why=why, fix=fix, code="E172")
