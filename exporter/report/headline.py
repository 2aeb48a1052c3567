"""What a reader wants to know first: how much smaller, how close, how fast, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from html import escape

from edgec.bundle.findings import Rung
from edgec.bundle.manifest import Manifest
from edgec.devices.simulators import simulator_elsewhere
from edgec.exporter.report.parts import UNAVAILABLE, rounded, section
from edgec.exporter.report.reading import NextTokens
from edgec.exporter.report.sections import ReportSamples, verdict

_FLOAT_BYTES = 4
_DECODE = "decode_tokens_per_s"
_APPLES = frozenset({"CoreMLBackend", "MLXBackend"})


def headline(manifest: Manifest, bench: Sequence[ReportSamples] = (), said: NextTokens | None = None) -> str:
    """The large line at the top, the verdict below it, and the next commands."""
    parts = [part for part in (_smaller(manifest), _alike(manifest, said), _fast(bench)) if part]
    line = f'<p class="headline">{", ".join(parts) or UNAVAILABLE}</p>'
    commands = "".join(f"<li>{_command(command)}</li>" for command in next_commands(manifest))
    return section(
        "In short", line, f"<p>{verdict(manifest.parity)}</p>", f'<h3>Next</h3><ul class="next">{commands}</ul>'
    )


def _command(line: str) -> str:
    """A command whose lines end between words only: a browser would also break after the hyphens of an option."""
    words = " ".join(f"<span>{escape(word)}</span>" for word in line.split(" "))
    return f"<code>{words}</code>"


def _smaller(manifest: Manifest) -> str:
    if manifest.ledger is None or not manifest.ledger.artifact_bytes:
        return ""
    factor = manifest.model.parameters * _FLOAT_BYTES / manifest.ledger.artifact_bytes
    return f"{rounded(factor)} times smaller than in 32-bit floats" if factor >= 1.05 else "not smaller than in floats"


def _alike(manifest: Manifest, said: NextTokens | None) -> str:
    """The share of positions with the float model's token; the ladder's figure leaves near ties out, and says so."""
    if not manifest.model.trained:
        return ""
    rung = quality_of(manifest.parity)
    ladder = None if rung is None else rung.top1_agreement
    if said is not None and said.places:
        share = said.same / said.places
        ties = "" if ladder is None or ladder == share else f"; {100 * ladder:.1f} % where near ties are left out"
        return f"{_share(share)} (at {said.same:,} of {said.places:,} positions{ties})"
    if rung is None or ladder is None:
        return ""
    return f"{_share(ladder)} (at {rung.positions:,} positions, near ties left out)"


def _share(agreement: float) -> str:
    return "the same next token" if agreement == 1 else f"{min(round(100 * agreement), 99)} % the same next token"


def _fast(bench: Sequence[ReportSamples]) -> str:
    measured = next((samples for samples in bench if samples.name == _DECODE and samples.values), None)
    if measured is None:
        return ""
    middle = sorted(measured.values)[len(measured.values) // 2]
    return f"{rounded(middle)} tokens/s ({escape(measured.how)})"


def quality_of(parity: Sequence[Rung]) -> Rung | None:
    """The comparison of the last form of the model with the float one, or None."""
    return next((rung for rung in reversed(parity) if rung.half == "quality"), None)


def next_commands(manifest: Manifest) -> list[str]:
    """Three commands that make sense now, in order."""
    bundle = f"{manifest.name}.edgec"
    quoted = f"'{bundle}'" if " " in bundle else bundle
    if manifest.vision_language is not None:
        return [
            f'edgec run {quoted} --image photo.jpg -p "What is this?"',
            f"edgec inspect {quoted}",
            "edgec help vision",
        ]
    if manifest.audio_language is not None:
        return [
            f'edgec run {quoted} --audio speech.wav -p "What is said?"',
            f"edgec inspect {quoted}",
            "edgec help audio",
        ]
    use = f'edgec run {quoted} -p "Once upon a time"' if manifest.limits else f"edgec verify {quoted}"
    apple = manifest.format in ("mlpackage", "aimodel") or not _APPLES.isdisjoint(manifest.runtime.backends)
    platform = "ios" if apple else "android"
    phone = {"host": f"edgec eval {quoted} --text held-out.txt"}.get(
        manifest.target, f"edgec embed {quoted} --platform {platform}"
    )
    measure = _measure(manifest, quoted) if manifest.limits else f"edgec inspect {quoted}"
    return [use, measure, phone if manifest.limits or manifest.target != "host" else "edgec help embed"]


def _measure(manifest: Manifest, bundle: str) -> str:
    """How fast it is: measured here where this is the target, else on the phone; estimated where neither is easy."""
    if manifest.target == "host":
        return f"edgec bench {bundle}"
    if simulator_elsewhere(manifest):
        return f"edgec plan {shlex.quote(manifest.model.source)} --target {manifest.target}"
    return f"edgec bench {bundle} --device adb:SERIAL"
