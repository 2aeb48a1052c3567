"""The report's sections; each function returns HTML, or "" where the manifest has no data for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from statistics import median

from edgec.bundle.entry_points import MethodInfo, TensorInfo
from edgec.bundle.findings import Delegation, DeviceCheck, Fallback, Rung
from edgec.bundle.manifest import Manifest, PassInfo
from edgec.devices.targets import DEFAULT_TARGET
from edgec.exporter.report.parts import (
    UNAVAILABLE,
    PagePart,
    bar,
    code,
    facts,
    number,
    percent,
    plain,
    row,
    samples,
    section,
    size,
    stacked,
    table,
)

_NAMED_OPERATORS, _NAMED_SHARE = 4, 0.01
_BADGES = {"passed": "ok", "failed": "bad"}
_NO_MAC = "Checks that need a Mac run automatically on a Mac."


@dataclass(frozen=True)
class ReportSamples:
    """Repeated measurements of one quantity, for the optional bench section.

    Attributes:
        name: the quantity (``ttft_ms``, ``decode_tokens_per_s``, ...).
        values: one value per repetition, in ``unit``.
        how: ``measured``, ``simulated`` or ``estimated``, with the device.
    """

    name: str
    unit: str
    values: tuple[float, ...]
    how: str


def summary(manifest: Manifest) -> str:
    """What was exported, and for which target."""
    model, ledger, limits = manifest.model, manifest.ledger, manifest.limits
    inside, prefix = manifest.delegation, manifest.prefix
    share = [] if inside is None else [(f"inside {inside.backend}", _share(inside))]
    shipped = f"{prefix.tokens:,} tokens, KV state shipped ({size(prefix.bytes)})" if prefix else "none shipped"
    pairs = [
        ("model", escape(model.name) + ("" if model.trained else " (random weights)")),
        ("family, task", escape(f"{model.family}, {model.task}")),
        ("parameters", f"{model.parameters:,}"),
        ("target", escape(manifest.target)),
        ("recipe", escape(manifest.recipe_name)),
        *([("wider than the recipe", escape(manifest.wider_layers))] if manifest.wider_layers else []),
        *([("calibrated on", escape(str(manifest.calibration)))] if manifest.calibration else []),
        ("artifact (measured)", size(ledger.artifact_bytes) if ledger else UNAVAILABLE),
        ("KV cache allocated", size(sum(state.bytes for state in manifest.states)) if manifest.states else "none"),
        ("context", f"{limits.context:,} tokens" if limits else "not a decoder"),
        *([("positions", escape(manifest.context_note))] if manifest.context_note else []),
        ("system prompt", shipped),
        *share,
        ("licence of the model", escape(model.licence or "not stated")),
        ("export peak memory (measured)", size(manifest.build.peak_bytes)),
    ]
    why = f"<p>Why this target: {escape(manifest.target_choice)}.</p>" if manifest.target_choice else ""
    return section("Summary", facts(pairs), why)


def _share(delegation: Delegation) -> str:
    return f"{percent(delegation.delegated_share)} of the arithmetic"


def verdict(parity: Sequence[Rung]) -> str:
    """One badge over all gated rungs."""
    failed = [rung.stage for rung in parity if rung.gated and not rung.passed]
    if failed:
        return f'<span class="badge bad">over budget: {escape(", ".join(failed))}</span>'
    gated = sum(rung.gated for rung in parity)
    return f'<span class="badge ok">{gated} of {gated} comparisons within budget</span>' if gated else "not compared"


def delegation(manifest: Manifest) -> str:
    """What runs inside the backend and what does not, and why; which unit of a chip computes it is told on a device."""
    if manifest.delegation is None:
        return ""
    inside = manifest.delegation
    heads = (f"outside {inside.backend}", "share", "reason")
    own = "" if manifest.target != DEFAULT_TARGET else " What is outside runs on the same CPU, by other kernels."
    return section(
        "Delegation",
        f"<p>{inside.delegated_operators:,} operators in {inside.delegates:,} delegates of {escape(inside.backend)}. "
        f"Shares are of the multiply-accumulates of one decoded token (counted from shapes).{own}</p>",
        stacked(_shares(inside)),
        table(heads, _reasons(inside.fallbacks), numeric=(1,), told=True) if inside.fallbacks else "",
    )


def _shares(delegation: Delegation) -> list[PagePart]:
    """The backend, the largest operators outside it, and all others as one."""
    ordered = sorted(delegation.fallbacks, key=lambda fallback: (-fallback.share, fallback.operator))
    named = [fallback for fallback in ordered[:_NAMED_OPERATORS] if fallback.share >= _NAMED_SHARE]
    rest = sum(fallback.share for fallback in ordered[len(named) :])
    parts = [PagePart(delegation.backend, delegation.delegated_share, percent(delegation.delegated_share))]
    parts += [PagePart(fallback.operator, fallback.share, percent(fallback.share)) for fallback in named]
    return [*parts, PagePart("other operators", rest, percent(rest))] if rest else parts


def _reasons(fallbacks: Sequence[Fallback]) -> list[tuple[str, str, str]]:
    """One row per reason: its operators with their counts, and their total share."""
    groups: dict[str, list[Fallback]] = {}
    for fallback in fallbacks:
        groups.setdefault(fallback.reason, []).append(fallback)
    return [
        (
            ", ".join(f"{code(fallback.operator)}\u00a0×{fallback.count:,}" for fallback in group),
            percent(sum(fallback.share for fallback in group)),
            escape(reason),
        )
        for reason, group in groups.items()
    ]


def passes(manifest: Manifest) -> str:
    """The passes in order, and what each did to the graph."""
    if not manifest.passes:
        return ""
    heads = ("pass", "claim", "nodes", "bytes held", "options")
    return section("Passes", table(heads, [_pass_row(info) for info in manifest.passes], numeric=(2, 3), told=True))


def _pass_row(info: PassInfo) -> tuple[str, ...]:
    nodes = f"{info.nodes_before:,} → {info.nodes_after:,}"
    held = f"{size(info.bytes_before)} → {size(info.bytes_after)}"
    options = ", ".join(f"{name.replace('_', ' ')}: {plain(info.options[name])}" for name in sorted(info.options))
    return code(info.name), info.effect, nodes, held, escape(options or "none")


def stages(manifest: Manifest) -> str:
    """The seconds that each stage of the export took."""
    seconds = manifest.build.seconds
    if not seconds:
        return ""
    longest = max(*seconds.values(), 1e-9)
    ordered = sorted(seconds.items(), key=lambda item: (-item[1], item[0]))
    bars = [bar(escape(name), taken / longest, f"{taken:.1f} s") for name, taken in ordered]
    total = f"<p>{sum(seconds.values()):.1f} s in all (measured, wall clock).</p>"
    return section("Export time", total, "\n".join(bars))


def methods(manifest: Manifest) -> str:
    """How the artifact is called, and its limits."""
    rows = [(code(m.name), _tensors(m.inputs), _tensors(m.outputs), _ranges(m)) for m in manifest.methods]
    limits = manifest.limits
    pairs = (
        [
            ("context", f"{limits.context:,} tokens"),
            ("tokens per call", f"1 to {limits.prefill_chunk:,}"),
            ("logit rows per call", f"1 to {limits.logit_rows:,}"),
        ]
        if limits
        else []
    )
    heads = ("method", "inputs", "outputs", "dynamic sizes")
    return section("Methods and limits", facts(pairs) if pairs else "", table(heads, rows) if rows else "")


def adapters(manifest: Manifest) -> str:
    """The adapters that the artifact has functions for, and what they take."""
    if not manifest.adapters:
        return ""
    heads = ("adapter", "rank", "matrices", "bytes", "trained on")
    rows = [
        (
            code(one.name),
            ", ".join(map(str, one.ranks)),
            f"{len(one.modules):,}",
            f"{one.bytes:,}",
            escape(one.trained_on or "not stated"),
        )
        for one in manifest.adapters
    ]
    told = "<p>Each method exists once more under each adapter, over the same weights and states.</p>"
    return section("Adapters", told, table(heads, rows, numeric=(2, 3)))


def _tensors(tensors: Sequence[TensorInfo]) -> str:
    return "<br>".join(code(f"{t.name}: {t.dtype} [{', '.join(map(str, t.shape))}]") for t in tensors)


def _ranges(method: MethodInfo) -> str:
    return "<br>".join(code(f"{name}: {low} to {high}") for name, (low, high) in method.dynamic.items()) or "none"


def bench(measurements: Sequence[ReportSamples]) -> str:
    """Measured samples, one dot each, every quantity on its own scale."""
    if not measurements:
        return ""
    rows = [_bench_row(sample) for sample in measurements if sample.values]
    return section("Bench", "<p>One dot per repetition, the line is the median; each scale begins at 0.</p>", *rows)


def _bench_row(sample: ReportSamples) -> str:
    middle, low, high = median(sample.values), min(sample.values), max(sample.values)
    return row(
        f"{escape(sample.name.replace('_', ' '))}<small>{escape(sample.how)}</small>",
        samples(sample.values, 0.0, high * 1.05, middle),
        f"{number(middle)} {escape(sample.unit)}"
        f"<small>{number(low)} to {number(high)}, n\u00a0=\u00a0{len(sample.values)}</small>",
    )


def tools(manifest: Manifest) -> str:
    """Where the model came from, and what its runtime must provide."""
    runtime, model = manifest.runtime, manifest.model
    required = [
        ("runtime", escape(f"{runtime.name} {runtime.version}")),
        ("backends", escape(", ".join(runtime.backends) or "none")),
        ("source", code(model.source)),
        ("revision", code(model.revision or "not stated")),
        ("created", escape(manifest.build.created.replace("T", " ").replace("+00:00", " UTC"))),
    ]
    operators = f"<p>{', '.join(code(name) for name in runtime.operators)}</p>" if runtime.operators else "<p>none</p>"
    versions = [(escape(name), escape(version)) for name, version in sorted(manifest.tools.items())]
    return section(
        "Runtime and tools",
        facts(required),
        "<h3>Operators the runtime must have</h3>",
        operators,
        "<h3>Versions at export</h3>",
        table(("tool", "version"), versions),
    )


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
