"""A recipe: how a model is compressed, as plain data read from TOML.

Recipes state bits and limits; what a backend's kernels can read is data too (``support.py``). torch is not imported
here, because ``edgec plan`` reads recipes as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from edgec.exporter.recipes.support import OWN_KERNELS, STANDARD_KERNELS, Support, has_own_kernels, support_of
from edgec.ir.weight_scheme import SchemeRule, WeightScheme, around_zero, stored_bytes

DEFAULT_RECIPE = "4bit"
"""The named recipe of a model that brings none of its own."""


@dataclass(frozen=True)
class Recipe:
    """How to compress a model, and the limits of its artifact.

    Attributes:
        name: as users type it.
        description: one line.
        weights: scheme of the linear layers that no rule names; None leaves them in float32.
        lm_head: scheme of the matrix that makes the logits; None leaves it in float32.
        embedding: scheme of embedding tables; None leaves them in float32.
        rules: (pattern on a parameter's name, scheme or None for float32); the first match wins over all above.
        algorithm: how scales are chosen: ``rtn``, ``hqq`` or ``mse``; ``importance`` and ``gptq``: by calibration text.
        prepare: exact rewrites of weights before they are rounded, in order: ``rotate``, ``awq``, ``smooth``.
        kv_dtype: ``float32``, ``float16``, ``int8`` or, with edgec's kernels, ``int4``.
        sink_tokens: leading tokens that sliding windows keep forever.
        context: longest sequence, in tokens; None for the model's own.
        prefill_chunk: tokens per call.
        logit_rows: positions with logits per call.
        shared_kv: ``reuse``: layers after the boundary read an earlier layer's keys and values; ``project``: they
            project the boundary's hidden state; None: every layer has its own.
        boundary: how many of the first layers keep their own: a count, a share (0..1), or ``auto``: chosen on text.
        boundary_kl: the most that ``auto`` may cost before training, nats per token.
        early_exit: how many of the first layers to keep, for a draft model; None keeps all.
        kernels: ``edgec`` for its own operators, ``standard`` for those that every ExecuTorch app has.
        allow_block_scales: allow integers with a scale per block of a row where they are reported to be wrong.
        keep_stored: keep the integers, scales and minimums of a quantised checkpoint where kernels read them bit for
            bit and no rule says otherwise; ``weights``, ``lm_head`` and ``embedding`` are for the rest.
        keep_float: layers of a non-decoder model that compute in float32 where the target computes in float16: patterns
            on a module's path, or on PATH:OPERATOR.
        budgets: limits of the quality check: ``kl_mean`` (nats), ``top1_agreement`` (0..1); empty for the defaults.
        accepted: those of them that the caller gave for this export; where looser, they hold for lowering, too.
        on: the recipe on backends that express it differently.
        backend: the backend it was resolved for (``for_backend``); empty for the CPU's.
    """

    name: str
    description: str = ""
    weights: WeightScheme | None = None
    lm_head: WeightScheme | None = None
    embedding: WeightScheme | None = None
    rules: tuple[SchemeRule, ...] = ()
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
    keep_stored: bool = False
    keep_float: tuple[str, ...] = ()
    budgets: Mapping[str, float] = field(default_factory=dict)
    accepted: Mapping[str, float] = field(default_factory=dict)
    on: Mapping[str, Recipe] = field(default_factory=dict)
    backend: str = ""

    @property
    def weight_bits(self) -> float:
        """Bits per weight of the linear layers, scales of a group included; 32 for float."""
        return bits_per_weight(self.weights)

    def to_json(self) -> dict[str, Any]:
        """The recipe as plain data, for the manifest and cache keys."""
        plain = asdict(replace(self, on={}))
        # The budgets say it all; how they came about changes no stage that is kept.
        del plain["accepted"]
        plain["rules"] = [
            {"parameters": pattern, **({"float": True} if scheme is None else asdict(scheme))}
            for pattern, scheme in self.rules
        ]
        plain["on"] = {backend: recipe.to_json() for backend, recipe in self.on.items()}
        return plain


def bits_per_weight(scheme: WeightScheme | None) -> float:
    """Bits per weight with the group's scale; a scale per channel is shared by too many weights to count."""
    if scheme is None:
        return 32.0
    if not scheme.symmetric:
        return 8 * stored_bytes((1, 8192), scheme) / 8192
    return scheme.bits + (scheme.scale_bits / scheme.group_size if scheme.group_size else 0.0)


def for_backend(recipe: Recipe, backend: str) -> Recipe:
    """The recipe as a backend expresses it: its table for that backend, and float where the backend computes in float.

    On CPUs a table for edgec's own kernels comes before that of the backend, unless the recipe asks for standard ones;
    what it is with those stays beside it, for ``with_standard_kernels``.

    Activations that a backend does not quantise, and caches that it holds in float, are more exact than asked for.
    """
    support = support_of(backend, recipe.kernels)
    as_own = support is not None and support.as_own and backend not in recipe.on
    reads_own = as_own or (has_own_kernels(backend) and recipe.kernels == OWN_KERNELS)
    own = recipe.on.get(OWN_KERNELS) if reads_own else None
    resolved = own or recipe.on.get(backend, recipe)
    if support is None:
        return resolved
    others = {kernels: other for kernels, other in recipe.on.items() if kernels == STANDARD_KERNELS}
    if not others and recipe.kernels == OWN_KERNELS and has_own_kernels(backend):
        others = {STANDARD_KERNELS: for_backend(replace(recipe, kernels=STANDARD_KERNELS), backend)}
    resolved = replace(resolved, kv_dtype=_cache_dtype(resolved.kv_dtype, support), on=others, backend=backend)
    return resolved if support.dynamic_activations else _with_float_activations(resolved)


def _cache_dtype(asked: str, support: Support) -> str:
    """The float that a backend's cache has in place of another one; float16 is not made of fewer bits."""
    if asked == "float16" and asked not in support.cache:
        return "float32" if "float32" in support.cache else asked
    return support.cache[0] if asked == "float32" and asked not in support.cache else asked


def with_changes(recipe: Recipe, **changes: Any) -> Recipe:
    """The recipe with other values for its fields on every backend, also where a backend has a table of its own."""
    on = {backend: with_changes(other, **changes) for backend, other in recipe.on.items()}
    return replace(recipe, **changes, on=on)


def with_standard_kernels(recipe: Recipe) -> Recipe:
    """A resolved recipe with ExecuTorch's kernels, and the weights and the cache that it has for these."""
    other = recipe.on.get(STANDARD_KERNELS, recipe)
    stored = replace(recipe, weights=other.weights, lm_head=other.lm_head, embedding=other.embedding)
    return replace(stored, rules=other.rules, kv_dtype=other.kv_dtype, kernels=STANDARD_KERNELS, on={})


def with_trained_grids(recipe: Recipe) -> Recipe:
    """The recipe with weights on grids that training learns: those with minimums lie around 0 instead."""
    weights, lm_head, embedding = (
        each and around_zero(each) for each in (recipe.weights, recipe.lm_head, recipe.embedding)
    )
    rules = tuple((pattern, scheme and around_zero(scheme)) for pattern, scheme in recipe.rules)
    return replace(recipe, weights=weights, lm_head=lm_head, embedding=embedding, rules=rules)


def _with_float_activations(recipe: Recipe) -> Recipe:
    def weight_only(scheme: WeightScheme | None) -> WeightScheme | None:
        return scheme and replace(scheme, activation_bits=0)

    rules = tuple((pattern, weight_only(scheme)) for pattern, scheme in recipe.rules)
    return replace(recipe, weights=weight_only(recipe.weights), lm_head=weight_only(recipe.lm_head), rules=rules)
