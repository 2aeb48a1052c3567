"""Read TOML from outside under the same limits as JSON: size, depth, digits, finite numbers."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

from edgec.bundle.limited_json import JsonKind, limited_bytes, require_limits


def read_toml(path: Path, kind: JsonKind) -> dict[str, Any]:
    """Read a TOML file's table.

    Raises:
        InputError: with the kind's code, the file is not plain, not readable, too large, or not TOML within the limits.
    """
    try:
        table = tomllib.loads(limited_bytes(path, kind.max_bytes).decode())
        require_limits(table, infinite=kind.infinite)
    except (OSError, ValueError) as error:
        raise kind.refusal(path, str(error)) from error
    except RecursionError as error:
        raise kind.refusal(path, "it is nested too deeply") from error
    return table


def is_number(value: Any) -> bool:
    """Whether a value is a finite number; true and false are not numbers here."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
