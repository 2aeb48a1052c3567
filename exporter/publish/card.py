"""The model card of a published bundle: what it is, how close to its source, what was executed, and how to run it.

Every name and note in a manifest may come from a stranger, so each is escaped; the card says what the manifest says.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from edgec.bundle.delegates import ON_CPUS
from edgec.bundle.findings import DeviceCheck, Rung
from edgec.bundle.hub.address import HubAddress
from edgec.bundle.manifest import Manifest, ModelInfo
from edgec.devices.simulators import simulator_elsewhere
from edgec.exporter.publish.card_header import base_of, header
from edgec.exporter.publish.markdown import code, plain, table
from edgec.exporter.publish.ways import system_of, ways

MARK: Final = "<!-- Written by edgec push, which replaces this page as long as this line is in it. -->"
_MOST_RUNGS: Final = 200
_MOST_FINDINGS: Final = 8
_WORTH_TELLING: Final = 0.01


def model_card_of(manifest: Manifest, address: HubAddress, base_model: str | None = None) -> str:
    """The README.md of a bundle's repository.

    Args:
        manifest: the bundle's.
        address: where the bundle will be.
        base_model: the hub's id of the model that it was made from; None: the manifest's source, where it lay there.

    Raises:
        InputError: E873, ``base_model`` is not an id.
    """
    base = base_of(manifest, base_model)
    parts = (
        f"{header(manifest, base)}\n{MARK}\n\n# {plain(address.name)}",
        _about(manifest),
        table(("", ""), _facts(manifest, base)),
        f"## How to run it\n\n{ways(manifest, address)}",
        _ladder(manifest),
        _executed(manifest),
        _limits(manifest),
    )
    return "\n\n".join(part for part in parts if part) + "\n"


def _about(manifest: Manifest) -> str:
    model = manifest.model
    weights = "" if model.trained else " **Its weights are random**: it is for trying things out."
    return (
        f"{plain(model.name)} ({plain(model.family)}, {plain(model.task)}), compiled by edgec "
        f"{plain(manifest.tools.get('edgec', ''))} for {code(manifest.target)}. A bundle: the compiled program, "
        f"what it needs beside it, and a manifest with the sha256 of every file.{weights}"
    )


def _facts(manifest: Manifest, base: str | None) -> list[tuple[str, str]]:
    model, ledger, files, limits = manifest.model, manifest.ledger, manifest.files, manifest.writing_limits
    artifact, bits = code(manifest.artifact), ""
    if ledger:
        artifact += f", {ledger.artifact_bytes:,} bytes (measured), of which weights {ledger.weight_bytes:,}"
        each = 8 * ledger.weight_bytes / max(model.parameters, 1)
        bits = f"{each:.2f} bits per parameter, scales and tables included"
    rows = (
        ("base model", _source(model, base)),
        ("licence of the model", plain(model.licence or "not stated")),
        ("parameters", f"{model.parameters:,}"),
        ("target", code(manifest.target) + (f": {plain(manifest.target_choice)}" if manifest.target_choice else "")),
        ("recipe", _recipe(manifest)),
        ("bits", "; ".join(filter(None, (bits, plain(manifest.bits_line), plain(manifest.wider_layers))))),
        ("calibrated on", plain(str(manifest.calibration)) if manifest.calibration else ""),
        ("artifact", artifact),
        ("all files", f"{sum(file.bytes for file in files):,} bytes in {len(files)} files, and the manifest"),
        ("context", f"{limits.context:,} tokens" if limits else ""),
        ("KV cache", f"{sum(state.bytes for state in manifest.states):,} bytes" if manifest.states else ""),
        ("runtime", f"{plain(manifest.runtime.name)} {plain(manifest.runtime.version)}"),
        ("digest", code(manifest.digest)),
    )
    return [(name, value) for name, value in rows if value]


def _source(model: ModelInfo, base: str | None) -> str:
    """The model's page on the hub; of a folder its name alone, since its path is nobody's business."""
    if base is None:
        return f"{code(PurePath(model.source).name or model.name)}, which does not come from the hub"
    commit = f" at commit {code(model.revision)}" if model.revision and base == model.source else ""
    return f"[{plain(base)}](https://huggingface.co/{base}){commit}"


def _recipe(manifest: Manifest) -> str:
    described = manifest.recipe.get("description")
    return code(manifest.recipe_name) + (f": {plain(described)}" if isinstance(described, str) and described else "")


def _ladder(manifest: Manifest) -> str:
    """Every comparison of the export."""
    if not manifest.parity:
        return "## Parity ladder\n\nNothing was compared."
    about = (
        "Each form of the model was executed where the bundle was made and compared with the one named beside it. "
        "*Lowering* compares two executions of one arithmetic, *quality* a compressed form with the float model. The "
        "KL divergence is in nats per position; the largest difference is of a logit or an output."
    )
    heads = ("stage", "against", "largest difference", "KL", "same top-1", "positions", "result")
    shown = table(heads, [_rung(rung) for rung in manifest.parity[:_MOST_RUNGS]])
    more = len(manifest.parity) - _MOST_RUNGS
    return f"## Parity ladder\n\n{about}\n\n{shown}" + (f"\n\n{more:,} more are in the manifest." if more > 0 else "")


def _rung(rung: Rung) -> tuple[str, ...]:
    verdict = "passed" if rung.passed else "**missed**"
    error = f" ± {rung.kl_error:.1g}" if rung.kl_error is not None else ""
    return (
        plain(rung.stage),
        plain(rung.reference),
        "in words" if rung.in_words else _number(rung.max_abs),
        "" if rung.in_words or rung.top1_agreement is None else _number(rung.kl_mean) + error,
        "" if rung.top1_agreement is None else f"{100 * rung.top1_agreement:.1f} %",
        f"{rung.positions:,}",
        f"{rung.half}: {verdict}" if rung.gated else f"{rung.half}: not gated",
    )


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.2g}"


def _executed(manifest: Manifest) -> str:
    """What ran, by which means, and what did not."""
    ran = [
        f"{plain(rung.stage)}, against {plain(rung.reference)}: {plain(rung.note)}."
        for rung in _executions(manifest.parity)
    ]
    simulator = simulator_elsewhere(manifest)
    not_run = [
        f"{check.name} on a Mac: {plain(check.note) or 'no reason is given'}."
        for check in manifest.device_checks
        if check.status == "not run"
    ]
    if manifest.build.not_emulated:
        not_run.append(f"The phone's own kernels, under an emulator: {plain(manifest.build.not_emulated)}.")
    if simulator:
        not_run.append(f"The target's own unit: {simulator} executed the artifact in its place.")
    if system_of(manifest) in ("ios", "android"):
        not_run.append("A phone: no speed is stated here, since none was measured on one.")
    if not ran:
        not_run.insert(0, "The artifact: its graph was compared, the compiled program was not executed.")
    checks = [f"{check.name} on {plain(check.machine)}: {check.status}." for check in _done(manifest)]
    told = "## What was executed\n\nWhere the bundle was made:\n\n" + _list([*ran, *checks])
    return told + "\n\nNot executed:\n\n" + _list(not_run)


def _executions(parity: Sequence[Rung]) -> list[Rung]:
    """The rungs of the compiled program, which have a note that says how it ran."""
    return [rung for rung in parity if rung.note and (rung.in_words or rung.stage.startswith("artifact"))]


def _done(manifest: Manifest) -> list[DeviceCheck]:
    return [check for check in manifest.device_checks if check.status != "not run"]


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines) if lines else "- nothing"


def _limits(manifest: Manifest) -> str:
    """What the bundle does not do, and what its linter found."""
    limits = manifest.writing_limits
    lines = [f"Texts of up to {limits.context:,} tokens, prompt and answer together."] if limits else []
    lines += [f"Positions: {plain(manifest.context_note)}."] if manifest.context_note else []
    inside = None if ON_CPUS.issuperset(manifest.runtime.backends) else manifest.delegation
    outside = inside.fallbacks if inside else []
    lines += [
        f"{100 * one.share:.1f} % of the arithmetic runs outside the accelerator: {plain(one.operator)}, "
        f"{plain(one.reason)}."
        for one in sorted(outside, key=lambda each: -each.share)[:_MOST_FINDINGS]
        if one.share >= _WORTH_TELLING
    ]
    lines += [f"{plain(one.rule)}: {plain(one.place)}: {plain(one.found)}." for one in manifest.lint[:_MOST_FINDINGS]]
    lines.append("The base model's own limits, biases and licence hold for this form of it, too.")
    return "## Limits\n\n" + _list(lines)
