"""What a tokenizer's files say before any library reads them: whether they may be opened in this process."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final

from edgec.bundle.charsmap import longest_replacement, tables_of_model
from edgec.bundle.limited_json import limited_bytes
from edgec.bundle.tokenizer_parts import MOST_GROWTH, check_added_tokens, check_parts

_JSON: Final = "tokenizer.json"
_TEKKEN: Final = "tekken.json"
_TOKEN_FILES: Final = ("added_tokens.json", "special_tokens_map.json")
_MODELS: Final = (".model", ".spm")
_MOST_BYTES: Final = 512 << 20
# What transformers itself sets when it reads the files, and would take from a config just as well.
_INNER: Final = ("_spm_precompiled_charsmap", "_json_padding", "_json_truncation", "vocab", "merges", "post_processor",
                 "tokenizer_padding", "tokenizer_truncation")  # fmt: skip
_TOKENS: Final = ("added_tokens_decoder", "additional_special_tokens", "extra_special_tokens")
_PARTS: Final = ("normalizer", "pre_tokenizer", "post_processor", "decoder")

_NAMES: Final = (*_PARTS, "normalizers", "pretokenizers", "decoders", "processors", "model", "added_tokens", "type",
                 "precompiled_charsmap", "pattern", "content", "prepend", "String", "Regex", "single", "pair",
                 "special_tokens", "SpecialToken", "ids")  # fmt: skip


class Opening(Enum):
    """Where a tokenizer is opened first."""

    KNOWN = "here"
    FILE = "tokenizer.json, in a process of its own"
    FOLDER = "all of it, in a process of its own"


def check_files(folder: Path, config: Mapping[str, Any]) -> Opening:
    """Check a tokenizer's files.

    Args:
        folder: of a tokenizer.
        config: what its tokenizer_config.json holds.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file is damaged, or exceeds the limits.
    """
    models = [_is_model(file) for file in sorted(folder.iterdir()) if file.suffix in _MODELS and file.is_file()]
    for name in _TOKEN_FILES:
        if (folder / name).is_file():
            check_added_tokens(max(_count([held := _object(folder / name)]), _count(held.values())))
    check_added_tokens(max(_count([config.get(name)]) for name in _TOKENS))
    quick = _check_json(folder / _JSON) if (folder / _JSON).is_file() else None
    known = quick is not None or (all(models) and not (folder / _TEKKEN).is_file())
    if not known or any(config.get(name) is not None for name in _INNER):
        return Opening.FOLDER
    return Opening.FILE if quick is False else Opening.KNOWN


def runs_quickly(backend: Any) -> bool:
    """Whether a tokenizer of the tokenizers library, as it was made, is known to be quick on any text.

    Raises:
        ValueError: a text may grow beyond the limits.
    """
    held = {name: getattr(backend, name, None) for name in _PARTS}
    return check_parts({name: json.loads(part.__getstate__()) for name, part in held.items() if part is not None})


def _check_json(file: Path) -> bool:
    """Check a tokenizer.json; whether its parts are known to be quick."""
    held = _object(file)
    try:
        check_added_tokens(_count([held.get("added_tokens")]))
        return check_parts(held)
    except ValueError as cause:
        raise ValueError(f"{file.name}: {cause}") from cause


def _is_model(file: Path) -> bool:
    """Check a SentencePiece model; false where a file of that name is something else."""
    try:
        tables = tables_of_model(limited_bytes(file, _MOST_BYTES))
    except ValueError:
        return False
    for table in tables:
        if (growth := longest_replacement(table)) > MOST_GROWTH:
            raise ValueError(f"{file.name} may make {growth:,} characters of one; at most {MOST_GROWTH} are taken")
    return True


def _count(values: Any) -> int:
    return sum(len(value) for value in values if isinstance(value, list | dict))


def _object(path: Path) -> dict[str, Any]:
    """A file's object, in which no part stands twice: libraries do not agree on which one counts."""
    try:
        held = json.loads(limited_bytes(path, _MOST_BYTES), object_pairs_hook=_unique)
    except RecursionError as cause:
        raise ValueError(f"{path.name} is nested too deeply") from cause
    except ValueError as cause:
        raise ValueError(f"{path.name}: {cause}") from cause
    if not isinstance(held, dict):
        raise ValueError(f"{path.name} holds no object")
    return held


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    held = dict(pairs)
    if len(held) < len(pairs):
        names = [name for name, _ in pairs]
        if twice := next((name for name in _NAMES if names.count(name) > 1), None):
            raise ValueError(f"{twice!r} stands twice in an object")
    return held
