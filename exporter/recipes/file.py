"""Read recipes from TOML. Every key is checked, so that typos are not ignored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from edgec.bundle.limited_json import JsonKind, is_number, read_toml
from edgec.errors import InputError
from edgec.exporter.recipes.budgets import BUDGETS
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.recipes.support import OWN_KERNELS, SUPPORT
from edgec.ir.kv_donors import AUTO
from edgec.ir.weight_scheme import KINDS, SchemeRule, WeightScheme, require_supported

_FIX = "correct what the message names, or compare with docs/recipes.md"
_KIND = JsonKind("the recipe cannot be read as TOML", _FIX, "E171", max_bytes=1 << 20, infinite=True)
_FOLDER = Path(__file__).parent / "named"
ValueCheck = tuple[str, Callable[[Any], bool]]


def _one_of(*choices: object) -> ValueCheck:
    return f"one of {', '.join(map(str, choices))}", lambda value: any(value is c or value == c for c in choices)


def _whole(low: int) -> ValueCheck:
    return f"a whole number of at least {low}", lambda value: type(value) is int and value >= low


def _is_boundary(value: Any) -> bool:
    return value == AUTO or (type(value) is int and value >= 1) or (type(value) is float and 0.0 < value < 1.0)


_TEXT: ValueCheck = ("a text", lambda value: isinstance(value, str))
_TRUTH: ValueCheck = ("true or false", lambda value: isinstance(value, bool))
_NUMBER: ValueCheck = ("a finite number", is_number)
_SHARE: ValueCheck = ("a share from 0 to 1", lambda value: type(value) in (int, float) and 0 <= value < 1)
_ALGORITHM = _one_of("rtn", "hqq", "mse", "importance", "gptq", "gptq-or-mse")
_GRID: dict[str, ValueCheck] = {
    "bits": ("a whole number from 1 to 8", lambda value: type(value) is int and 1 <= value <= 8),
    "group_size": _whole(0),
    "kind": _one_of(*KINDS),
    "group_rows": _whole(0),
    "sparsity": _SHARE,
    "sparse_block": _whole(0),
    "levels": _whole(0),
}
_NEEDED = {"int": ("bits", "group_size"), "lut": ("bits", "group_rows"), "balanced": ("group_rows",)}
_IMPLIED: dict[str, dict[str, Any]] = {
    "int": {},
    "lut": {"group_size": 0, "activation_bits": 0, "scale_bits": 16},
    "balanced": {"bits": 2, "group_size": 0, "activation_bits": 0, "scale_bits": 16},
}
_SCALES = {"scale_bits": _one_of(6, 16, 32)}
_SCHEME: dict[str, ValueCheck] = {
    **_GRID,
    "symmetric": _TRUTH,
    "activation_bits": _one_of(0, 8),
    "activation_group": _whole(0),
    **_SCALES,
}
_TABLES: dict[str, dict[str, ValueCheck]] = {
    "weights": _SCHEME,
    "lm_head": _SCHEME,
    "embedding": {**_GRID, "symmetric": _TRUTH, **_SCALES},
    "cache": {"dtype": _one_of("float32", "float16", "int8", "int4"), "sink_tokens": _whole(0)},
    "shared_kv": {
        "mode": _one_of("reuse", "project"),
        "boundary": (f"a count of layers, a share of them or {AUTO}", _is_boundary),
        "max_kl": ("a finite number above 0", lambda value: is_number(value) and value > 0),
    },
    "limits": {"context": _whole(2), "prefill_chunk": _whole(1), "logit_rows": _whole(1)},
    "budgets": dict.fromkeys(BUDGETS, _NUMBER),
}
_RULE = {"parameters": _TEXT, "float": _TRUTH, **_SCHEME}
_KERNELS = _one_of("edgec", "standard")
_PREPARE: ValueCheck = (
    "a list of rotate, awq, smooth",
    lambda value: isinstance(value, list) and all(each in ("rotate", "awq", "smooth") for each in value),
)
_TOP: dict[str, ValueCheck] = {
    "description": _TEXT,
    "algorithm": _ALGORITHM,
    "prepare": _PREPARE,
    "kernels": _KERNELS,
    "allow_block_scales": _TRUTH,
    "keep_stored": _TRUTH,
    "keep_float": ("a list of texts", lambda value: isinstance(value, list) and all(isinstance(e, str) for e in value)),
    "early_exit": _whole(1),
}


def named_recipes() -> dict[str, Path]:
    """The TOML files of the recipes that come with edgec, by name."""
    return {file.stem: file for file in sorted(_FOLDER.glob("*.toml"))}


def recipe_names() -> tuple[str, ...]:
    """The names of the recipes that come with edgec."""
    return tuple(named_recipes())


def load_recipe(name_or_path: str | Path) -> Recipe:
    """Load a named recipe or a TOML file; a recipe's name wins over a file of that name.

    Raises:
        InputError: E175, no such recipe; E171, an unknown key or a bad value.
    """
    file = named_recipes().get(str(name_or_path), Path(name_or_path))
    if not _is_file(file):
        raise _unknown(str(name_or_path))
    return parse_recipe(read_toml(file, _KIND), file.stem, str(file))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # Too long a name, a folder closed to us.
        return False


def _unknown(name: str) -> InputError:
    near = get_close_matches(name, named_recipes(), n=3, cutoff=0.3)
    return InputError(
        what=f"there is no recipe {name!r}",
        where="--recipe",
        why="it is not the name of a recipe, and there is no such file",
        fix=f"use {' or '.join(near)}" if near else f"use one of {', '.join(named_recipes())}, or a TOML file's path",
        code="E175",
    )


def parse_recipe(table: Mapping[str, Any], name: str, where: str) -> Recipe:
    """Make a Recipe from a parsed TOML table.

    Raises:
        InputError: E171.
    """
    tables = {key: table.get(key, {}) for key in _TABLES}
    _check_keys(table, {*_TOP, *_TABLES, "rules", "on"}, "", where)
    _check_values({key: table[key] for key in _TOP if key in table}, _TOP, "", where)
    for key, values in tables.items():
        if not isinstance(values, dict):
            raise _bad(where, f"has a bad value for {key!r}", f"{values!r} is not a table", f"write [{key}]")
        _check_values(values, _TABLES[key], f"{key}.", where)
    cache, limits = tables["cache"], tables["limits"]
    return Recipe(
        name=name,
        weights=_scheme(table, "weights", where),
        lm_head=_scheme(table, "lm_head", where),
        embedding=_scheme(table, "embedding", where, activation_bits=0),
        rules=_rules(table.get("rules", []), where),
        **{key: _plain(table[key]) for key in _TOP if key in table},
        **{f"kv_{key}" if key == "dtype" else key: value for key, value in cache.items()},
        **_shared_kv(table.get("shared_kv")),
        **limits,
        budgets=tables["budgets"],
        on=_on(table, name, where),
    )


def _plain(value: Any) -> Any:
    """A TOML value with lists as tuples, since recipes are compared and hashed."""
    return tuple(value) if isinstance(value, list) else value


def _on(table: Mapping[str, Any], name: str, where: str) -> dict[str, Recipe]:
    """The recipe on single backends, or on edgec's kernels: their tables replace those of the same name."""
    overrides = table.get("on", {})
    if not isinstance(overrides, dict) or not all(isinstance(own, dict) for own in overrides.values()):
        raise _bad(where, "has a bad value for 'on'", "it is not a table of tables", "write [on.coreml.weights]")
    _check_keys(overrides, {*SUPPORT, OWN_KERNELS}, "on.", where)
    base = {key: value for key, value in table.items() if key != "on"}
    return {backend: parse_recipe({**base, **own}, name, where) for backend, own in overrides.items()}


def _shared_kv(values: Mapping[str, Any] | None) -> dict[str, Any]:
    """The fields of ``[shared_kv]``: the table's presence asks for sharing, and its keys have defaults."""
    if values is None:
        return {}
    fields = {"boundary": "boundary", "max_kl": "boundary_kl"}
    given = {field: values[key] for key, field in fields.items() if key in values}
    return {"shared_kv": values.get("mode", "reuse"), **given}


def _scheme(table: Mapping[str, Any], key: str, where: str, **fixed: Any) -> WeightScheme | None:
    if key not in table:
        return None
    return _scheme_from(table[key], f"{key}.", where, **fixed)


def _scheme_from(values: Mapping[str, Any], prefix: str, where: str, **fixed: Any) -> WeightScheme:
    kind = values.get("kind", "int")
    for needed in _NEEDED[kind]:
        if needed not in values:
            raise _bad(where, f"lacks {prefix}{needed}", "bits and group are never guessed", f"add {needed} = ...")
    scheme = WeightScheme(**{**_IMPLIED[kind], **values, **fixed})
    if scheme.is_table or scheme.group_rows or scheme.sparsity or scheme.levels:
        _require_meaning(scheme, prefix, where)
    return scheme


def _require_meaning(scheme: WeightScheme, prefix: str, where: str) -> None:
    """Refuse keys that contradict each other; whether integers are supported is the backend's to say."""
    try:
        require_supported(scheme, prefix)
    except InputError as error:
        raise _bad(where, f"has a bad value in {prefix.rstrip('.')}", error.what, error.fix) from error


def _rules(rules: Any, where: str) -> tuple[SchemeRule, ...]:
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise _bad(where, "has a bad value for 'rules'", "it is not a list of tables", "write [[rules]]")
    return tuple(_rule(rule, where) for rule in rules)


def _rule(rule: Mapping[str, Any], where: str) -> SchemeRule:
    _check_values(rule, _RULE, "rules.", where)
    if "parameters" not in rule:
        raise _bad(where, "lacks rules.parameters", "a rule needs a pattern", 'add parameters = "model.layers.0.*"')
    values = {key: value for key, value in rule.items() if key in _SCHEME}
    if rule.get("float"):
        if values:
            raise _bad(where, "has a rule with both float and bits", f"{rule['parameters']!r}", "keep one of them")
        return rule["parameters"], None
    return rule["parameters"], _scheme_from(values, "rules.", where)


def _check_values(values: Mapping[str, Any], known: Mapping[str, ValueCheck], prefix: str, where: str) -> None:
    _check_keys(values, set(known), prefix, where)
    for key, value in values.items():
        wanted, good = known[key]
        if not good(value):
            raise _bad(where, f"has a bad value for {prefix}{key!s}", f"{value!r} is not {wanted}", f"make it {wanted}")


def _check_keys(values: Mapping[str, Any], known: set[str], prefix: str, where: str) -> None:
    for key in values:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            fix = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(sorted(known))}"
            raise _bad(
                where,
                f"has an unknown key {prefix}{key}",
                "unknown keys are errors, so that typos are not ignored",
                fix,
            )


def _bad(where: str, what: str, why: str, fix: str) -> InputError:
    return InputError(what=f"the recipe {what}", where=where, why=why, fix=fix, code="E171")
