"""Refuse what a backend cannot execute, naming the place in the recipe, before any work is done."""

from __future__ import annotations

from collections.abc import Iterator

from edgec.errors import InputError
from edgec.exporter.recipes.recipe import Recipe, for_backend
from edgec.exporter.recipes.support import Support, support_of
from edgec.ir.weight_scheme import WeightScheme, require_supported

_ROWS = 16
"""Output channels per table that error messages propose."""


def check_recipe(recipe: Recipe, backend: str, *, allow_unsafe_weight_only: bool = False) -> None:
    """Refuse what a backend cannot execute, before any work is done.

    Args:
        recipe: resolved for the backend or not.
        backend: a target's backend; those without a table of kernels are not checked here.
        allow_unsafe_weight_only: lets tests give the parity ladder a lowering that is known to be wrong.

    Raises:
        InputError: E172, with the nearest scheme that the backend does execute; E176, integers per block on a backend
            that is reported to get them wrong.
    """
    support = support_of(backend, recipe.kernels)
    if support is None:
        return
    recipe = for_backend(recipe, backend)
    for place, scheme in _schemes(recipe):
        _check_minimums(place, scheme, support)
        if scheme.is_table:
            _check_table(place, scheme, support)
        elif place.endswith("embedding"):
            _check_lookup(place, scheme, support)
        else:
            _check_kernel(place, scheme, support)
            _check_activations(place, scheme, support)
            if scheme.activation_bits == 0 and not allow_unsafe_weight_only:
                _check_weight_only(place, scheme, support)
        if scheme.group_size and not (support.block_scales or recipe.allow_block_scales):
            raise _block_scales(place, scheme)
    _check_cache(recipe, support)


def _schemes(recipe: Recipe) -> Iterator[tuple[str, WeightScheme]]:
    places = [("weights", recipe.weights), ("lm_head", recipe.lm_head), ("embedding", recipe.embedding)]
    places += [(f"rules: {pattern}", scheme) for pattern, scheme in recipe.rules]
    yield from ((f"recipe {recipe.name}, {place}", scheme) for place, scheme in places if scheme is not None)


def _check_minimums(place: str, scheme: WeightScheme, support: Support) -> None:
    """Refuse groups with minimums where no kernel adds them, and forms that have no meaning."""
    if scheme.symmetric:
        return
    if all(grid.symmetric for grid in support.kernels):
        fix = "leave symmetric = false out, or put it under [on.edgec], which is for edgec's own kernels"
        raise _unsupported(place, str(scheme), "its kernels read scales without minimums", fix)
    require_supported(scheme, place)


def _check_kernel(place: str, scheme: WeightScheme, support: Support) -> None:
    if not scheme.symmetric:
        return
    grids = [grid for grid in support.kernels if grid.symmetric]
    legal = [(grid.bits, group) for grid in grids for group in (*grid.groups, 0)]
    if (scheme.bits, scheme.group_size) in legal:
        return
    legal = [(bits, group) for bits, group in legal if support.block_scales or not group]
    if scheme.bits == 2 and support.table_bits:
        fix = f'set kind = "balanced" or kind = "lut", bits = 2 and group_rows = {_ROWS}'
        raise _unsupported(place, str(scheme), "its integers have 4 or 8 bits; two bits are look-up tables", fix)
    bits, group = min(legal, key=lambda choice: (abs(choice[0] - scheme.bits), _apart(choice[1], scheme.group_size)))
    read = "; ".join(f"{grid.bits} bits: group {', '.join(map(str, (*grid.groups, 0)))}" for grid in grids)
    raise _unsupported(place, str(scheme), f"its kernels read {read}", f"set bits = {bits} and group_size = {group}")


def _check_activations(place: str, scheme: WeightScheme, support: Support) -> None:
    """Refuse a group of activations that no kernel rounds together, and scales that only XNNPACK's 4 bits have."""
    exact = not scheme.symmetric or support.exact_scale_bits in (0, scheme.scale_bits)
    if scheme.group_size and scheme.bits != 4 and not exact:
        what, why = (
            f"{scheme} with float32 scales",
            f"its kernels store scales of groups in {support.exact_scale_bits} bits",
        )
        raise _unsupported(place, what, why, f"set scale_bits = {support.exact_scale_bits}")
    read = sorted({grid.activation_group for grid in support.kernels})
    if scheme.activation_bits and scheme.activation_group is not None and scheme.activation_group not in read:
        what = f"activations with a scale for {scheme.activation_group or 'all'} values of a token"
        why = f"its kernels read {' or '.join('one for the whole token' if not g else f'one for {g}' for g in read)}"
        raise _unsupported(place, what, why, f"set activation_group = {read[-1]}, or leave it out")


def _check_weight_only(place: str, scheme: WeightScheme, support: Support) -> None:
    if not support.weight_only:
        fix = "set activation_bits = 8 (dynamic, no calibration needed)"
        raise _unsupported(place, "weight-only quantisation", support.why_not, fix)
    if scheme.group_size and scheme.symmetric and support.exact_scale_bits not in (0, scheme.scale_bits):
        what = f"float activations with {scheme.scale_bits}-bit scales of groups"
        why = f"its kernels store these scales in {support.exact_scale_bits} bits"
        raise _unsupported(place, what, why, f"set scale_bits = {support.exact_scale_bits}")


def _check_table(place: str, scheme: WeightScheme, support: Support) -> None:
    """Refuse look-up tables where there are none; the balanced set needs them in embeddings only."""
    if scheme.kind == "balanced" and support.balanced and not place.endswith("embedding"):
        return
    if not support.table_bits:
        fix = 'set kind = "int", ' + (
            "bits = 4 and group_size = 32" if scheme.bits <= 4 else "bits = 8, group_size = 0"
        )
        raise _unsupported(place, str(scheme), "its kernels read integers, not look-up tables", fix)
    if scheme.bits not in support.table_bits:
        near = min(support.table_bits, key=lambda bits: (abs(bits - scheme.bits), -bits))
        why = f"its look-up tables have {', '.join(map(str, support.table_bits))} bits"
        raise _unsupported(place, str(scheme), why, f"set bits = {near}")
    if scheme.sparsity and not support.sparse:
        raise _unsupported(place, str(scheme), "it stores zeros like other values", "leave sparsity out")


def _check_lookup(place: str, scheme: WeightScheme, support: Support) -> None:
    if scheme.symmetric and scheme.bits not in support.lookup_bits:
        near = min(support.lookup_bits, key=lambda bits: abs(bits - scheme.bits))
        why = f"look-ups read {', '.join(map(str, support.lookup_bits))} bits"
        raise _unsupported(place, str(scheme), why, f"set bits = {near}")


def _check_cache(recipe: Recipe, support: Support) -> None:
    if recipe.kv_dtype not in support.cache:
        why = f"it holds {', '.join(support.cache)}"
        place = f"recipe {recipe.name}, cache"
        raise _unsupported(place, f"a {recipe.kv_dtype} KV cache", why, f'set dtype = "{support.cache[0]}"')


def _apart(group: int, other: int) -> float:
    """The distance between two group sizes; per channel counts as a very large group."""
    return abs((group or 1 << 20) - (other or 1 << 20))


def _block_scales(place: str, scheme: WeightScheme) -> InputError:
    return InputError(
        what=f"{scheme} is not trusted on the Neural Engine",
        where=place,
        why="integers with a scale per block of a row are reported to be wrong there without any error: cosine 0.37, "
        "where the iPhone's GPU has 0.999 (apple/coreai-models#279); nothing on this machine can show it",
        fix=f'set group_size = 0 (per channel), or kind = "lut" and group_rows = {_ROWS}; '
        "allow_block_scales = true in the recipe allows them anyway",
        code="E176",
    )


def _unsupported(place: str, what: str, why: str, fix: str) -> InputError:
    return InputError(what=f"the target does not execute {what}", where=place, why=why, fix=fix, code="E172")
