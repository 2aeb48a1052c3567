"""The report on the device: the linter's findings, and the checks that need a Mac."""

from __future__ import annotations

from html import escape

from edgec.bundle.findings import DeviceCheck
from edgec.bundle.manifest import Manifest
from edgec.exporter.report.parts import code, section, table

_BADGES = {"passed": "ok", "failed": "bad"}
_NO_MAC = "Checks that need a Mac run automatically on a Mac."


def lint(manifest: Manifest) -> str:
    """The linter's findings, the refused ones first."""
    if not manifest.lint:
        return ""
    ordered = sorted(manifest.lint, key=lambda finding: (finding.severity != "refused", finding.rule, finding.place))
    rows = [(escape(f.severity), escape(f.rule), code(f.place), escape(f.found), escape(f.fix)) for f in ordered]
    return section("Linter", table(("severity", "rule", "place", "found", "fix"), rows))


def device_checks(manifest: Manifest) -> str:
    """Compile, predict and placement: the results on a Mac, or that there was none."""
    if not manifest.device_checks:
        return ""
    rows = [
        (escape(check.name), _status(check), escape(check.machine), escape(check.note))
        for check in manifest.device_checks
    ]
    return section(
        "On a Mac",
        f"<p>{_NO_MAC}</p>",
        table(("check", "status", "machine", "note"), rows),
        _placement(manifest),
    )


def _status(check: DeviceCheck) -> str:
    badge = _BADGES.get(check.status)
    return f'<span class="badge {badge}">{check.status}</span>' if badge else f'<span class="dim">{check.status}</span>'


def _placement(manifest: Manifest) -> str:
    """Where Core ML would run each kind of operator."""
    placed = [row for check in manifest.device_checks for row in check.placement]
    if not placed:
        return ""
    rows = [(escape(row.method), code(row.operator), escape(row.unit), f"{row.count:,}") for row in placed]
    return table(("method", "operator", "unit", "count"), rows, numeric=(3,))
