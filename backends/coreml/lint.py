"""The linter before the converter: what Core ML refuses, and what keeps a model off the unit that it is made for.

Rules are data (``lint_rules.toml``: limit, severity, fix); checks (``lint_checks.py``) find the places. A finding is
``refused`` only where Core ML cannot express it; everything else is a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from edgec.backends.coreml.lint_checks import Breach, LintRule, rules
from edgec.ir.program import Program


@dataclass(frozen=True)
class Finding:
    """A rule that the model breaks, and where.

    Attributes:
        rule: its name.
        severity: ``warning`` or ``refused``.
        place: method and node, weight or state; with the number of further places where the same was found.
        found: what is there.
        fix: what to do.
    """

    rule: str
    severity: str
    place: str
    found: str
    fix: str

    def to_json(self) -> dict[str, str]:
        """The finding as plain data."""
        return asdict(self)


def lint(
    program: Program,
    *,
    method: str = "",
    unit: str = "npu",
    stored_bytes: int | None = None,
    ranges: Mapping[str, float] | None = None,
) -> tuple[Finding, ...]:
    """The rules that a Program breaks, refused ones first.

    Args:
        program: the graph that will be converted.
        method: its name in the package, put in front of every place.
        unit: the one that it is made for, ``npu`` or ``gpu``; rules of the other are left out.
        stored_bytes: of the weights as the file holds them; None leaves the size rules out.
        ranges: largest magnitude of each node on calibration text (``activation_ranges``); None leaves those rules out.
    """
    from edgec.backends.coreml.lint_checks import breaches

    every = breaches(program, rules(), stored_bytes, ranges or {})
    places = (breach for breach in every if rules()[breach.rule].unit in ("", unit))
    return tuple(_ordered(_merged(places, f"{method}: " if method else "")))


def lint_methods(
    methods: Mapping[str, Program],
    *,
    unit: str = "npu",
    stored_bytes: int | None = None,
    ranges: Mapping[str, Mapping[str, float]] | None = None,
) -> tuple[Finding, ...]:
    """The findings of all methods of a package; the same finding in several of them appears once."""
    same: dict[tuple[str, str], list[Finding]] = {}
    for name, program in methods.items():
        for each in lint(program, unit=unit, stored_bytes=stored_bytes, ranges=(ranges or {}).get(name)):
            same.setdefault((each.rule, each.found), []).append(replace(each, place=f"{name}: {each.place}"))
    return tuple(_ordered(replace(group[0], place="; ".join(each.place for each in group)) for group in same.values()))


def _ordered(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda each: (each.severity != "refused", each.rule))


def _merged(breaches: Iterable[Breach], prefix: str) -> list[Finding]:
    """Merge all places where a rule found the same into one finding."""
    same: dict[tuple[Any, ...], list[Breach]] = {}
    for breach in breaches:
        what = () if rules()[breach.rule].together else (breach.value, breach.shape)
        same.setdefault((breach.rule, *what), []).append(breach)
    return [_worded(rules()[places[0].rule], prefix, places) for places in same.values()]


def _worded(rule: LintRule, prefix: str, places: Sequence[Breach]) -> Finding:
    first = places[0]
    words = {
        "value": first.value if isinstance(first.value, str) else _number(first.value),
        "limit": _number(rule.limit),
        "shape": " x ".join(map(str, first.shape)),
    }
    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    place = f"{prefix}{first.place}{more}"
    return Finding(rule.name, rule.severity, place, rule.found.format(**words), rule.fix.format(**words))


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.3g}"
