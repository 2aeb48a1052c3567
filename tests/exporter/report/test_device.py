"""Linter findings and checks on a Mac, in the report and on the terminal."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from edgec.bundle.findings import DeviceCheck, LintFinding, Placement
from edgec.bundle.manifest import Manifest
from edgec.exporter.report.inspect_tables import manifest_tables
from edgec.exporter.report.page import render_report
from edgec.exporter.stages.device_checks import not_run
from tests.bundle.bundle_samples import sample_manifest

FINDINGS = [
    LintFinding(rule="width", severity="warning", place="lm_head", found="1000 <wide>", fix="split it"),
    LintFinding(rule="rank", severity="refused", place="view_3", found="rank 6", fix="merge two"),
]
CHECKS = [
    DeviceCheck(name="compile", status="passed", machine="M4, macOS 27"),
    DeviceCheck(
        name="placement",
        status="passed",
        machine="M4, macOS 27",
        placement=[Placement(method="decode", operator="ios18.conv", unit="neural engine", count=1234)],
    ),
]


def _terminal(manifest: Manifest) -> str:
    console = Console(file=StringIO(), width=200)
    for table in manifest_tables(manifest):
        console.print(table)
    result: str = console.file.getvalue()  # type: ignore[attr-defined]
    return result


def test_both_show_findings_the_refused_first() -> None:
    manifest = sample_manifest(lint=FINDINGS)
    report = render_report(manifest)
    assert report.index("rank 6") < report.index("1000 &lt;wide&gt;")
    assert "split it" in _terminal(manifest)


def test_both_show_where_operators_run() -> None:
    manifest = sample_manifest(device_checks=CHECKS)
    for text in (render_report(manifest), _terminal(manifest)):
        assert "neural engine" in text and "1,234" in text and "M4, macOS 27" in text


def test_checks_that_did_not_run_say_so() -> None:
    manifest = sample_manifest(device_checks=not_run("there is no Mac here: linux"))
    for text in (render_report(manifest), _terminal(manifest)):
        assert text.count("not run") == 3 and "there is no Mac here: linux" in text


def test_bundles_without_either_show_neither() -> None:
    report = render_report(sample_manifest())
    assert "Linter" not in report and "On a Mac" not in report
