"""Schemas of a folder, and jsonschema as the judge of what is written to them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def sample(folder: Path, count: int) -> Iterator[tuple[str, Any]]:
    """What JSON files of a folder hold, by name, in an order of chance that is always the same."""
    files = sorted(folder.rglob("*.json"))
    random.Random(0).shuffle(files)
    for file in files[:count]:
        yield file.relative_to(folder).as_posix(), json.loads(file.read_text())


def verdict(schema: Any, value: Any) -> str:
    """``valid``, ``invalid``, or why jsonschema cannot say: patterns that Python's re does not know, and the like."""
    import jsonschema

    judge = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        return "valid" if judge(schema, format_checker=judge.FORMAT_CHECKER).is_valid(value) else "invalid"
    except Exception as error:  # the judge's own
        return f"not judged ({type(error).__name__})"
