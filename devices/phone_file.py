"""A phone of the user's own, from one TOML file of the form of ``phones/*.toml``: ``edgec plan MODEL --phone FILE``."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from edgec.bundle.limited_json import JsonKind, read_toml
from edgec.devices.phone_fields import (
    CONTRADICTIONS,
    FIGURES,
    KNOWN_WORDS,
    NAMING,
    REQUIRED,
    SOURCE,
    UNITS,
    CoreClocks,
    Number,
    Words,
)
from edgec.devices.target_names import same_words
from edgec.devices.targets import aliases, all_targets, chips, formats_of, load_target, phone_known
from edgec.errors import InputError

_MAX_BYTES = 64 << 10
_GUIDE = "`edgec help targets` has the form, with every field"
_KIND = JsonKind("The file of a phone cannot be read.", _GUIDE, "E860", _MAX_BYTES, infinite=True)
_SHOWN, _FEW = 60, 10
_OTHER_CHIP = "A phone with another chip leaves chip out, and has the chip's figures in its own table"
_FIELDS = {**NAMING, **FIGURES}


@contextmanager
def added_phone(file: Path | None) -> Iterator[str | None]:
    """Know the phone of a file while the context lasts; gives its key, or None where there is no file.

    Raises:
        InputError: as :func:`read_phone`.
    """
    if file is None:
        yield None
        return
    key, table = read_phone(file)
    with phone_known(key, table):
        yield key


def read_phone(file: Path) -> tuple[str, Mapping[str, Any]]:
    """The key and the table of the one phone in a file, every field checked.

    A phone without ``chip`` is a chip of its own, of which nothing is known but what the table says.

    Raises:
        InputError: E860 not readable, or not TOML; E861 not one phone; E862 an unknown field; E863 a value of another
            kind, or a field that is missing; E864 a figure out of its limits, or that contradicts another; E865 an
            unknown word; E866 the key is taken, or cannot be a target's name.
    """
    key, table = _only_phone(read_toml(file, _KIND), file)
    _check_key(key, file)
    _check_fields(table, file)
    sources = _sources(table, file)
    return key, {"chip": f"chip-of-{key}", **table, "sources": sources}


def chosen_target(key: str | None, target: str | None) -> str:
    """The name of the target to take, where a phone of the user's own may be given.

    Args:
        key: that of the user's phone, or None.
        target: as ``--target`` says it: for the user's own phone also a unit alone (``cpu``).

    Raises:
        InputError: E866, neither is given, or the target is another phone's.
    """
    if key is None:
        return target if target is not None else _no_target()
    if target is None:
        return key
    name = f"{key}-{target}" if target in UNITS else target
    if load_target(name).phone != key:
        raise InputError(
            f"the target '{name[:_SHOWN]}' is not the phone of the file",
            "--target",
            f"--phone gives {key}",
            f"leave out one of the two, or name a unit: --target {key}-cpu",
            "E866",
        )
    return name


def _no_target() -> NoReturn:
    fix = "give --target NAME, one of `edgec targets`, or --phone FILE"
    raise InputError("there is no target", "--target", "neither --target nor --phone is given", fix, "E866")


def _only_phone(content: Mapping[str, Any], file: Path) -> tuple[str, dict[str, Any]]:
    tables = {key: value for key, value in content.items() if isinstance(value, dict)}
    if len(content) != 1 or len(tables) != 1:
        why = "it holds nothing" if not content else f"its first level holds {_listed(content)}"
        raise _refusal("a file of a phone holds one table, named as the phone", file, why, "E861")
    return next(iter(tables.items()))


def _check_key(key: str, file: Path) -> None:
    if not NAMING["chip"].takes(key):
        why = f"{key[:_SHOWN]!r} is not a word of small letters, digits and hyphens, of at most 40"
        raise _refusal("the phone's table has a name that cannot be a target's", file, why, "E866")
    taken = {*aliases(), *(target.phone for target in all_targets()), *(target.name for target in all_targets())}
    alike = same_words({*taken, key, *(f"{key}-{unit}" for unit in UNITS)})
    if key in taken or alike:
        other = key if key in taken else next(name for names in alike.values() for name in names if name in taken)
        raise _refusal("a phone of that name is known already", file, f"{key} is {other}", "E866")


def _check_fields(table: Mapping[str, Any], file: Path) -> None:
    for field in table:
        if field not in _FIELDS and field != "sources":
            near = [f"did you mean {name}?" for name in difflib.get_close_matches(field[:_SHOWN], _FIELDS, n=1)]
            raise _refusal(f"a phone has no field {field[:_SHOWN]!r}", file, "".join(near), "E862")
    for field in REQUIRED:
        if field not in table:
            raise _refusal(f"the phone's table lacks {field}", file, f"{field} is {_FIELDS[field]}", "E863")
    for field, value in table.items():
        if field != "sources":
            _check_value(field, value, file)
    for told, holds in CONTRADICTIONS:
        if holds(table):
            raise _refusal("the phone's figures contradict each other", file, told, "E864")
    _check_names(table, file)


def _check_value(field: str, value: Any, file: Path) -> None:
    kind = _FIELDS[field]
    if not kind.takes(value):
        raise _refusal(f"{field} is not {kind}", file, f"it is {_shown(value)}", "E863")
    if isinstance(kind, Number | CoreClocks) and not kind.holds(value):
        raise _refusal(f"{field} is out of its limits", file, f"it is {_shown(value)}; {field} is {kind}", "E864")
    if isinstance(kind, Words):
        for word in value:
            _check_word(field, word, kind.known, file)
        if len(set(value)) < len(value):
            raise _refusal(f"{field} names a word twice", file, f"it is {_shown(value)}", "E864")


def _check_names(table: Mapping[str, Any], file: Path) -> None:
    """Refuse a chip, a system or a kind that is not known, and a unit that edgec knows no format for."""
    for field, known in {**KNOWN_WORDS, "chip": tuple(chips())}.items():
        if field in table:
            _check_word(field, table[field], known, file)
    for unit in table["units"]:
        if not formats_of(table["os"], unit):
            raise _refusal(f"{table['os']} has no unit {unit!r} that edgec knows", file, "", "E865")


def _check_word(field: str, word: str, known: tuple[str, ...], file: Path) -> None:
    if word not in known:
        near = difflib.get_close_matches(word[:_SHOWN], known, n=3, cutoff=0.4)
        few = f"it may be {', '.join(known)}" if len(known) < _FEW else ""
        why = few or f"did you mean {', '.join(near)}?" * bool(near)
        if field == "chip":
            why = (
                f"{why} A phone with another chip leaves chip out, and has the chip's figures in its own table".strip()
            )
        raise _refusal(f"{field} has no {word[:_SHOWN]!r}", file, why, "E865")


def _sources(table: Mapping[str, Any], file: Path) -> dict[str, str]:
    """Where each figure is from: as the file says it, else the file itself."""
    told = table.get("sources", {})
    if not isinstance(told, dict) or not all(SOURCE.takes(value) for value in told.values()):
        raise _refusal("sources is not a table of texts", file, f"each is {SOURCE}", "E863")
    strange = [field for field in told if field not in FIGURES or field not in table]
    if strange:
        why = f"{_listed(strange)}: no figure of this table"
        raise _refusal("sources names a figure that the phone lacks", file, why, "E862")
    return {field: told.get(field, file.name.replace("[", "(")) for field in table if field in FIGURES}


def _listed(names: Mapping[str, Any] | list[str]) -> str:
    shown = [repr(name[:_SHOWN]) for name in list(names)[:4]]
    return ", ".join(shown) + f" and {len(names) - 4:,} more" * (len(names) > 4)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _refusal(what: str, file: Path, why: str, code: str) -> InputError:
    return InputError(what, str(file), why, f"correct the file; {_GUIDE}", code)
