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
    """One rule of the linter.

    Attributes:
        severity: ``warning`` or ``refused``.
        limit: the bound that may just be reached; its unit depends on the rule.
        found: the template that describes what was found.
        fix: what to do.
        together: all places of a method are one finding, described by the first of them.
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
    """All rules of the linter, by name."""
    return {name: LintRule(name=name, **fields) for name, fields in tomllib.loads(_RULES.read_text()).items()}
