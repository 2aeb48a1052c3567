"""report.html: the whole manifest for a reader, in one file without scripts or external resources."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from edgec.bundle.manifest import Manifest
from edgec.exporter.parity.sample import Sample
from edgec.exporter.report import sections
from edgec.exporter.report.bits import bit_search
from edgec.exporter.report.checkpoint import checkpoint
from edgec.exporter.report.estimates import Estimate, estimated
from edgec.exporter.report.headline import headline
from edgec.exporter.report.memory import kv_memory, ledger
from edgec.exporter.report.parity import parity
from edgec.exporter.report.reading import NextTokens, reading, texts
from edgec.exporter.report.sections import ReportSamples, device_checks, lint
from edgec.exporter.report.style import STYLE

if TYPE_CHECKING:
    from edgec.runtime_py.generation.generate import Decode


def render_report(
    manifest: Manifest,
    bench: Sequence[ReportSamples] = (),
    said: NextTokens | None = None,
    decode: Decode | None = None,
    sample: Sample | None = None,
    phone: Sequence[Estimate] = (),
) -> str:
    """Render a manifest as one self-contained HTML document; the same arguments give the same text.

    Args:
        manifest: the bundle's; ``files`` and ``digest`` are not needed, so an unfinished bundle's can be rendered.
        bench: measured samples to show, if any.
        said: what the float model and the bundle say next along a text.
        decode: token ids to text.
        sample: a short text of both, shown in place of the next tokens.
        phone: what the target is expected to do.
    """
    parts = (
        headline(manifest, bench, said),
        texts(sample, decode) or reading(said, decode),
        sections.summary(manifest),
        parity(manifest),
        sections.bench(bench),
        estimated(manifest.target, phone),
        bit_search(manifest),
        checkpoint(manifest),
        ledger(manifest),
        sections.delegation(manifest),
        lint(manifest),
        device_checks(manifest),
        kv_memory(manifest),
        sections.passes(manifest),
        sections.methods(manifest),
        sections.adapters(manifest),
        sections.stages(manifest),
        sections.tools(manifest),
    )
    return _document(manifest, "\n".join(parts))


def _document(manifest: Manifest, body: str) -> str:
    """The whole file around the sections."""
    name = escape(manifest.name)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name}: edgec report</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n<main>\n"
        f'<h1>{name}</h1>\n<p class="dim">edgec report, schema {manifest.schema_version}</p>\n'
        f"{body}\n</main>\n</body>\n</html>\n"
    )
