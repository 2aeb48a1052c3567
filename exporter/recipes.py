"""A recipe: how a model is made small, as plain data read from TOML.

Recipes know bits and limits; which of them a backend's kernels read is a table of data too. No torch is imported here:
``edgec plan`` reads recipes as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.errors import InputError
from edgec.exporter.recipe_support import SUPPORT, Support
from edgec.passes.weight_scheme import DYNAMIC_INT8_KERNELS, WeightScheme

if TYPE_CHECKING:
    from edgec.passes.calibration import Calibration
    from edgec.passes.contract import Pass

Rule = tuple[str, WeightScheme | None]
_ROWS = 16
"""Output channels per table that errors propose."""


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
        algorithm: how scales are chosen: ``rtn``, ``hqq`` or ``mse``; ``gptq``: fitted to calibration text.
        prepare: exact rewrites of weights before they are rounded, in order: ``rotate``, ``awq``, ``smooth``.
        kv_dtype: ``float32``, ``float16``, ``int8`` or, with edgec's kernels, ``int4``.
        sink_tokens: leading tokens that sliding windows keep for ever.
        context: longest sequence, tokens; None for the model's own.
        prefill_chunk: tokens per call.
        logit_rows: positions with logits per call.
        shared_kv: ``reuse``: layers behind the boundary read an earlier layer's keys and values; ``project``: they
            project the boundary's hidden state; None: each its own.
        boundary: first layers that keep their own: a count, a share of all (0..1), or ``auto``: chosen on text.
        boundary_kl: the most that ``auto`` may cost before training, nats per token.
        early_exit: keep the first layers only: a draft model for speculation; None keeps all.
        kernels: ``edgec`` for its own operators, ``standard`` for those that every ExecuTorch app has.
        allow_block_scales: take integers with a scale per block of a row where they are reported to be wrong.
        budgets: limits of the quality check: ``kl_mean`` (nats), ``top1_agreement`` (0..1); empty for the defaults.
        on: what the recipe is on backends that express it in another way.
        backend: the backend it was resolved for (``for_backend``); empty for the CPU's.
    """

    name: str
    description: str = ""
    weights: WeightScheme | None = None
    lm_head: WeightScheme | None = None
    embedding: WeightScheme | None = None
    rules: tuple[Rule, ...] = ()
    algorithm: str = "mse"
    prepare: tuple[str, ...] = ()
    kv_dtype: str = "float32"
    sink_tokens: int = 0
    context: int | None = None
    prefill_chunk: int = 128
    logit_rows: int = 16
    shared_kv: str | None = None
    boundary: float | int | str = 0.625
    boundary_kl: float = 1.0
    early_exit: int | None = None
    kernels: str = "edgec"
    allow_block_scales: bool = False
    budgets: Mapping[str, float] = field(default_factory=dict)
    on: Mapping[str, Recipe] = field(default_factory=dict)
    backend: str = ""

    @property
    def weight_bits(self) -> float:
        """Bits per weight of the linear layers, scales of a group included; 32 for float."""
        return bits_per_weight(self.weights)

    def to_json(self) -> dict[str, Any]:
        """As plain data, for the manifest and cache keys."""
        plain = asdict(replace(self, on={}))
        plain["rules"] = [{"parameters": pattern, **_rule_json(scheme)} for pattern, scheme in self.rules]
        plain["on"] = {backend: recipe.to_json() for backend, recipe in self.on.items()}
        return plain


def _rule_json(scheme: WeightScheme | None) -> dict[str, Any]:
    return {"float": True} if scheme is None else asdict(scheme)


def bits_per_weight(scheme: WeightScheme | None) -> float:
    """Bits per weight with the group's scale; a per-channel scale is spread over too many weights to count."""
    if scheme is None:
        return 32.0
    return scheme.bits + (scheme.scale_bits / scheme.group_size if scheme.group_size else 0.0)


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


def for_backend(recipe: Recipe, backend: str) -> Recipe:
    """The recipe as a backend expresses it: its own words for that backend, and float where that computes in float.

    Activations that a backend does not quantise, and caches it holds in its own float, are more exact than asked.
    """
    found, support = recipe.on.get(backend, recipe), SUPPORT.get(backend)
    if support is None:
        return found
    cache = support.cache[0] if found.kv_dtype == "float32" and "float32" not in support.cache else found.kv_dtype
    found = replace(found, kv_dtype=cache, on={}, backend=backend)
    return found if support.dynamic_activations else _with_float_activations(found)


def _with_float_activations(recipe: Recipe) -> Recipe:
    def weight_only(scheme: WeightScheme | None) -> WeightScheme | None:
        return scheme and replace(scheme, activation_bits=0)

    rules = tuple((pattern, weight_only(scheme)) for pattern, scheme in recipe.rules)
    return replace(recipe, weights=weight_only(recipe.weights), lm_head=weight_only(recipe.lm_head), rules=rules)


def passes_for(recipe: Recipe, calibration: Calibration | None = None) -> list[Pass]:
    """The compressing passes a recipe asks for, in order; none for a float recipe.

    Args:
        recipe: resolved for its backend (``for_backend``).
        calibration: text or examples: errors of look-up tables then count as activations are large; ``gptq`` needs it.
    """
    from edgec.passes.calibration import Calibration
    from edgec.passes.palettize import Palettize
    from edgec.passes.quantize import Quantize
    from edgec.passes.quantize_embedding import QuantizeEmbedding
    from edgec.passes.weight_grid import GPTQ

    rules, weights, lm_head, embedding = recipe.rules, recipe.weights, recipe.lm_head, recipe.embedding
    asked = (weights, lm_head, embedding, *(scheme for _, scheme in rules))
    wanted: list[Pass] = []
    if any(scheme and _tabulated(scheme, recipe) for scheme in asked):
        compensate = recipe.algorithm == GPTQ
        wanted.append(Palettize(rules, weights, lm_head, embedding, calibration or Calibration(), compensate))
    if any(_integers(scheme, recipe) for scheme in (weights, lm_head, *(s for _, s in rules))):
        support = SUPPORT.get(recipe.backend)
        kernels = support.kernels if support else DYNAMIC_INT8_KERNELS
        own = tuple((pattern, _integers(scheme, recipe)) for pattern, scheme in rules)
        defaults = (_integers(weights, recipe), _integers(lm_head, recipe))
        wanted.append(Quantize(own, *defaults, recipe.algorithm, kernels, calibration or Calibration()))
    if embedding and not embedding.is_table:
        scales = (recipe.algorithm, embedding.scale_bits)
        wanted.append(QuantizeEmbedding(embedding.bits, embedding.group_size, *scales))
    return wanted


def _tabulated(scheme: WeightScheme, recipe: Recipe) -> bool:
    """Whether the backend holds a scheme as a table; those without tables hold the balanced set as integers."""
    support = SUPPORT.get(recipe.backend)
    return scheme.is_table and bool(support and support.table_bits)


def _integers(scheme: WeightScheme | None, recipe: Recipe) -> WeightScheme | None:
    """The scheme where integers hold it; tables are another pass's work."""
    return None if scheme is None or _tabulated(scheme, recipe) else scheme


def rounds_weights(recipe: Recipe) -> bool:
    """Whether any compressing pass rounds the model."""
    return any(rewrite.effect == "approximate" for rewrite in passes_for(recipe))


def check_recipe(recipe: Recipe, backend: str, *, allow_unsafe_weight_only: bool = False) -> None:
    """Refuse what a backend cannot execute, before any work is done.

    Args:
        recipe: the recipe, resolved or not.
        backend: a target's backend; those without a table of kernels are not checked here.
        allow_unsafe_weight_only: lets tests feed the parity ladder a lowering that is known to be wrong.

    Raises:
        InputError: E172, with the nearest scheme that the backend does execute; E176, integers per block on a backend
            that is reported to get them wrong.
    """
    support = SUPPORT.get(backend)
    if support is None:
        return
    recipe = for_backend(recipe, backend)
    for place, scheme in _schemes(recipe):
        if scheme.is_table:
            _check_table(place, scheme, support)
        elif place.endswith("embedding"):
            _check_lookup(place, scheme, support)
        else:
            _check_kernel(place, scheme, support)
            if scheme.activation_bits == 0 and not (support.weight_only or allow_unsafe_weight_only):
                fix = "set activation_bits = 8 (dynamic, no calibration needed)"
                raise _unsupported(place, "weight-only quantisation", support.why_not, fix)
        if scheme.group_size and not (support.block_scales or recipe.allow_block_scales):
            raise _block_scales(place, scheme)
    _check_cache(recipe, support)


def _schemes(recipe: Recipe) -> Iterator[tuple[str, WeightScheme]]:
    places = [("weights", recipe.weights), ("lm_head", recipe.lm_head), ("embedding", recipe.embedding)]
    places += [(f"rules: {pattern}", scheme) for pattern, scheme in recipe.rules]
    yield from ((f"recipe {recipe.name}, {place}", scheme) for place, scheme in places if scheme is not None)


def _check_kernel(place: str, scheme: WeightScheme, support: Support) -> None:
    legal = [(grid.bits, group) for grid in support.kernels for group in (*grid.groups, 0)]
    if (scheme.bits, scheme.group_size) in legal and scheme.symmetric:
        return
    legal = [(bits, group) for bits, group in legal if support.block_scales or not group]
    if scheme.bits == 2 and support.table_bits:
        fix = f'set kind = "balanced" or kind = "lut", bits = 2 and group_rows = {_ROWS}'
        raise _unsupported(place, str(scheme), "its integers have 4 or 8 bits; two bits are look-up tables", fix)
    bits, group = min(legal, key=lambda choice: (abs(choice[0] - scheme.bits), _apart(choice[1], scheme.group_size)))
    read = "; ".join(f"{grid.bits} bits: group {', '.join(map(str, (*grid.groups, 0)))}" for grid in support.kernels)
    raise _unsupported(place, str(scheme), f"its kernels read {read}", f"set bits = {bits} and group_size = {group}")


def _check_table(place: str, scheme: WeightScheme, support: Support) -> None:
    """Look-up tables; the balanced set needs none, except in an embedding."""
    if scheme.kind == "balanced" and support.balanced and not place.endswith("embedding"):
        return
    if not support.table_bits:
        fix = 'set kind = "int", ' + (
            "bits = 4 and group_size = 32" if scheme.bits <= 4 else "bits = 8, group_size = 0"
        )
        raise _unsupported(place, str(scheme), "its kernels read integers, no look-up tables", fix)
    if scheme.bits not in support.table_bits:
        near = min(support.table_bits, key=lambda bits: (abs(bits - scheme.bits), -bits))
        why = f"its look-up tables have {', '.join(map(str, support.table_bits))} bits"
        raise _unsupported(place, str(scheme), why, f"set bits = {near}")
    if scheme.sparsity and not support.sparse:
        raise _unsupported(place, str(scheme), "it stores zeros like other values", "leave sparsity out")


def _check_lookup(place: str, scheme: WeightScheme, support: Support) -> None:
    if scheme.bits not in support.lookup_bits:
        near = min(support.lookup_bits, key=lambda bits: abs(bits - scheme.bits))
        why = f"look-ups read {', '.join(map(str, support.lookup_bits))} bits"
        raise _unsupported(place, str(scheme), why, f"set bits = {near}")


def _check_cache(recipe: Recipe, support: Support) -> None:
    if recipe.kv_dtype not in support.cache:
        why = f"it holds {', '.join(support.cache)}"
        place = f"recipe {recipe.name}, cache"
        raise _unsupported(place, f"a {recipe.kv_dtype} KV cache", why, f'set dtype = "{support.cache[0]}"')


def _apart(group: int, other: int) -> float:
    """Distance of two group sizes; per channel counts as a very large group."""
    return abs((group or 1 << 20) - (other or 1 << 20))


def _block_scales(place: str, scheme: WeightScheme) -> InputError:
    return InputError(
        what=f"{scheme} is not trusted on the Neural Engine",
        where=place,
        why="integers with a scale per block of a row are reported to be wrong there without any error: cosine 0.37, "
        "where the iPhone's GPU has 0.999 (apple/coreai-models#279); nothing on this machine can show it",
        fix=f'set group_size = 0 (per channel), or kind = "lut" and group_rows = {_ROWS}; '
        "allow_block_scales = true in the recipe takes them all the same",
        code="E176",
    )


def _unsupported(place: str, what: str, why: str, fix: str) -> InputError:
    return InputError(what=f"the target does not execute {what}", where=place, why=why, fix=fix, code="E172")
