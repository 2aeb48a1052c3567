"""The report on the parity ladder, as plots and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from edgec.bundle.findings import Rung
from edgec.bundle.manifest import Manifest
from edgec.exporter.report.parts import LogScale, decades, dots, number, percent, row, section, table


def parity(manifest: Manifest) -> str:
    """The section on the ladder: two plots, and a table with all figures."""
    if not manifest.parity:
        return ""
    rungs = manifest.parity
    intro = (
        "<p>Every stage is executed and compared with the one named under it. A dot is what was measured, the vertical "
        "line is the budget; the axes are logarithmic, and an exact 0 lies at the left edge.</p>"
    )
    measured = [rung for rung in rungs if not rung.in_words]
    relative = [(rung, _relative(rung), _relative_budget(rung)) for rung in measured]
    divergence = [(rung, rung.kl_mean, rung.budget.get("kl_mean")) for rung in measured]
    return section(
        "Parity ladder",
        intro,
        _judged_on(manifest),
        _more_bits(manifest),
        _not_emulated(manifest.build.not_emulated),
        _ladder("Largest difference of a logit, as a share of the reference's largest", relative),
        _ladder("Mean KL divergence, nats per position", divergence),
        "<h3>All figures (measured)</h3>",
        _rung_table(rungs),
    )


def _judged_on(manifest: Manifest) -> str:
    return f"<p>Outputs: {escape(manifest.judged_on)}.</p>" if manifest.judged_on else ""


def _more_bits(manifest: Manifest) -> str:
    label = "More bits than the recipe has" if manifest.more_bits else "More bits than the first default"
    return f"<p>{label}: {escape(manifest.bits_line)}.</p>" if manifest.bits_line else ""


def _not_emulated(why: str) -> str:
    return f"<p>The phone's own kernels did not run here, under qemu: {escape(why)}.</p>" if why else ""


def _relative(rung: Rung) -> float | None:
    return rung.max_abs / rung.reference_max_abs if rung.max_abs is not None and rung.reference_max_abs else None


def _relative_budget(rung: Rung) -> float | None:
    if "max_abs" in rung.budget and rung.reference_max_abs:
        return rung.budget["max_abs"] / rung.reference_max_abs
    return rung.budget.get("max_relative")


def _ladder(title: str, points: Sequence[tuple[Rung, float | None, float | None]]) -> str:
    scale = LogScale.around(value for _, measured, limit in points for value in (measured, limit) if value is not None)
    rows = [
        row(
            f"{escape(rung.stage)}<small>{escape(rung.half)}, against {escape(rung.reference)}</small>",
            dots(scale, measured, limit, limit is not None and (measured is None or measured > limit)),
            number(measured) + ("" if limit is None else f"<small>budget {number(limit)}</small>"),
        )
        for rung, measured, limit in points
    ]
    return f"<h3>{escape(title)}</h3>" + "\n".join(rows) + decades(scale)


def _rung_table(rungs: Sequence[Rung]) -> str:
    """All figures of each rung; the verdict stands early, where a narrow screen shows it without scrolling."""
    heads = (
        "stage",
        "verdict",
        "against",
        "claim",
        "positions",
        "max",
        "mean",
        "KL mean",
        "KL max",
        "same top-1",
    )
    rows = [
        (
            escape(rung.stage) + _note(rung),
            _badge(rung),
            escape(rung.reference),
            rung.effect,
            f"{rung.positions:,}",
            number(rung.max_abs),
            number(rung.mean_abs),
            number(rung.kl_mean) + ("" if rung.kl_error is None else f" ± {number(rung.kl_error)}"),
            number(rung.kl_max),
            percent(rung.top1_agreement),
        )
        for rung in rungs
    ]
    return table(heads, rows, numeric=range(4, 10))


def _badge(rung: Rung) -> str:
    if not rung.gated:
        return '<span class="badge">not gated</span>'
    return '<span class="badge ok">passed</span>' if rung.passed else '<span class="badge bad">failed</span>'


def _note(rung: Rung) -> str:
    layer = rung.first_diverging_layer
    own = rung.channel_relative
    channel = "" if own is None else f"differs by {own:.2g} of a channel's spread: {rung.place}"
    notes = [rung.note, rung.values, channel, "" if layer is None else f"first diverging layer: {layer}"]
    return "".join(f"<br><small>{escape(note)}</small>" for note in notes if note)
