"""The linter's rules as data (``lint_rules.toml``), and what breaks them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_RULES = Path(__file__).parent / "lint_rules.toml"


@dataclass(frozen=True)
class LintRule:
    """What to look for.

    Attributes:
        severity: ``warning`` or ``refused``.
        limit: what is still in order; its unit is the rule's.
        found: the words for what was found.
        fix: what to do.
        together: all places of a method are one finding, whatever was found there; the first speaks for them.
    """

    name: str
    severity: str
    limit: float
    found: str
    fix: str
    together: bool = False


@dataclass(frozen=True)
class Breach:
    """A place and what was found there, not yet in words."""

    rule: str
    place: str
    value: float | str
    shape: tuple[Any, ...] = ()


@cache
def rules() -> Mapping[str, LintRule]:
    """Every rule by name."""
    return {name: LintRule(name=name, **fields) for name, fields in tomllib.loads(_RULES.read_text()).items()}
