"""Measure a bundle on a device: loads, first token, prefill, decode, memory, and sustained speed.

Every job runs in a fresh process. Memory has a separate pass, because watching it would slow the others.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.bundle.atomic import typed_os_errors
from edgec.bundle.folder import Bundle, open_bundle
from edgec.bundle.hub.located import bundle_folder
from edgec.bundle.replaceable import check_replaceable_files
from edgec.devices.job import Job, core_numbers
from edgec.devices.transport import Conditions, Say, Transport, connect
from edgec.errors import InputError
from edgec.quiet import quiet
from edgec.runtime_py.adapters.use import opened_adapter
from edgec.runtime_py.bench.app_result import app_records
from edgec.runtime_py.bench.measured_model import measured_model
from edgec.runtime_py.bench.past_runs import keep_run
from edgec.runtime_py.bench.record import AnyRecord, RepetitionRecord, SustainedRecord, holds_record, write_records
from edgec.runtime_py.bench.run import measure
from edgec.runtime_py.bench.shown_prompt import sense_tokens
from edgec.runtime_py.bench.summary import Figure, summarise
from edgec.runtime_py.sessions.session import text_limits
from edgec.svg import Series, box_chart, line_chart, stack


@dataclass(frozen=True)
class BenchResult:
    """The result of a finished run.

    Attributes:
        records: what was measured, line by line.
        figures: medians and spreads over the records; an emulator has none.
        out: the JSONL file, or None.
        plot: the SVG next to it, or None; an emulator's times are not drawn.
    """

    records: tuple[AnyRecord, ...]
    figures: tuple[Figure, ...]
    out: Path | None = None
    plot: Path | None = None


@dataclass(frozen=True)
class BenchPlan:
    """The plan of a measurement, the same on every device.

    Attributes:
        prompt_tokens: length of the prompt (seeded random tokens), without what an image or a sound takes.
        new_tokens: tokens generated after it, past any end-of-sequence token.
        repetitions: measured generations, at least 5.
        warmups: generations before them that do not count.
        threads: CPU threads; None leaves the choice to the runtime.
        sustained_minutes: keep generating for this long and record the speed over time.
        profile: also measure the time of each operator, in a separate process.
        cores: the CPU cores that may be used, like ``4-7``; None: all.
        cool_down_s: pause before each generation.
        adapter: the file of an adapter that is added, except where an app measures; None: none.
    """

    prompt_tokens: int = 128
    new_tokens: int = 64
    repetitions: int = 5
    warmups: int = 3
    threads: int | None = None
    sustained_minutes: float | None = None
    profile: bool = False
    cores: str | None = None
    cool_down_s: float = 0.0
    adapter: Path | None = None

    def job(self, bundle: Bundle) -> Job:
        """The first job; the others are made from it."""
        return Job(
            "speed",
            str(bundle.path),
            self.prompt_tokens + sense_tokens(bundle),
            self.new_tokens,
            self.threads,
            warmups=self.warmups,
            repetitions=self.repetitions,
            cool_down_s=self.cool_down_s,
            cores=self.cores,
            adapter=None if self.adapter is None else str(self.adapter.resolve()),
        )


@quiet()
def bench(
    bundle: Path | str,
    device: str = "host",
    *,
    conditions: Conditions | None = None,
    out: Path | None = None,
    say: Say | None = None,
    **plan: Any,
) -> BenchResult:
    """Measure a decoder's bundle on one device; with vision or audio, each prompt has one tile or one window of sound.

    Args:
        bundle: the bundle folder, or its address on the hub.
        device: host, adb:SERIAL, ios:UDID, sim:UDID or qemu.
        conditions: heat, silence and what stays on a phone.
        out: where to write the JSONL records; a plot goes next to it as .svg.
        say: told what is being measured.
        plan: the fields of ``BenchPlan``.

    Raises:
        InputError: E150 prompt and new tokens exceed the context, E155 not a decoder, or one with vision or audio
            that is measured on this machine without a profile alone, E156 an option outside its
            range, E121 ``out`` cannot be written, E123 it holds something else, E162 no token was generated, E541 to
            E559 the device cannot be used; E695, E696 or E701, the adapter is at fault or an app measures.
        ToolError: E320 or E54x, the device cannot be reached; E350, profiling needs edgec's engine.
    """
    opened, asked, say = open_bundle(bundle_folder(bundle)), BenchPlan(**plan), say or (lambda _: None)
    with closing(connect(device, conditions, say)) as transport:
        return bench_on(transport, opened, asked, out, say)


def bench_on(transport: Transport, bundle: Bundle, plan: BenchPlan, out: Path | None, say: Say) -> BenchResult:
    """Measure on a connected device; see ``bench``."""
    transport.check(bundle)
    _check_senses(plan, bundle, transport)
    _check(plan, bundle)
    if plan.adapter is not None:
        _check_adapter(plan.adapter, bundle, transport)
    if out is not None:
        _check_out(out)
    records = _records(transport, bundle, plan, say)
    keep_run(records)
    plot = None
    if out is not None:
        write_records(records, out)
        plot = None if records[0].simulated else save_plot(records, out.with_suffix(".svg"))
    return BenchResult(tuple(records), summarise(records), out, plot)


def _records(transport: Transport, bundle: Bundle, plan: BenchPlan, say: Say) -> list[AnyRecord]:
    seconds, kinds = 60 * (plan.sustained_minutes or 0.0), ("profile",) if plan.profile else ()
    if not transport.whole_runs:
        return measure(transport, bundle, plan.job(bundle), seconds, kinds, say)
    asked = plan.job(bundle).to_json() | {"kind": "app", "seconds": seconds}
    records = app_records(transport.run(asked)["records"], asked, str(transport.address), transport.simulated)
    # An app does not know what only the manifest says.
    known = {"measured": measured_model(bundle.manifest)}
    return [r.model_copy(update={"subject": r.subject.model_copy(update=known)}) for r in records]


def _check_out(out: Path) -> None:
    """Refuse what cannot or must not be written before minutes are spent on measuring."""
    check_replaceable_files((out, out.with_suffix(".svg")), holds_record, "benchmark record")
    if not os.access(out.parent, os.W_OK):
        raise InputError(
            "The output cannot be written.",
            where=str(out),
            why="its folder does not exist, or you may not write to it",
            fix="choose a folder you may write to with --out",
            code="E121",
        )


def _check_adapter(adapter: Path, bundle: Bundle, transport: Transport) -> None:
    """Refuse an adapter that does not fit, and apps, which add none, before anything is measured."""
    if transport.whole_runs:
        raise InputError(
            "Apps are measured without an adapter.",
            where="--adapter",
            why=f"the bench app on {transport.address} has the bundle alone",
            fix="leave --adapter out, or measure on this machine, over adb or with --device qemu",
            code="E701",
        )
    opened_adapter(adapter, bundle)


def _check_senses(plan: BenchPlan, bundle: Bundle, transport: Transport) -> None:
    """Refuse what only a model that reads text can be asked for."""
    if not sense_tokens(bundle):
        return
    asked = {"--profile": plan.profile, f"--device {transport.address}": transport.address.kind != "host"}
    wanted = next((option for option, given in asked.items() if given), None)
    if wanted is None:
        return
    images = ": edgec-runner --image FILE.ppm times one answer on a device" if bundle.manifest.vision_language else ""
    raise InputError(
        "A model with vision or audio is measured on this machine, without a profile.",
        where=wanted,
        why="its prompts have an image or a sound among their tokens, which only Python's session times",
        fix=f"leave {wanted.split()[0]} out{images}",
        code="E155",
    )


def _check(plan: BenchPlan, bundle: Bundle) -> None:
    context, rows = text_limits(bundle).context, sense_tokens(bundle)
    ranges = {
        "prompt_tokens": (plan.prompt_tokens >= 1, "1 or more"),
        "new_tokens": (plan.new_tokens >= 2, "2 or more: decode speed needs an interval"),
        "repetitions": (plan.repetitions >= 5, "5 or more, so that there is a spread"),
        "warmups": (plan.warmups >= 0, "0 or more"),
        "cool_down": (plan.cool_down_s >= 0, "seconds, 0 or more"),
        "cores": (not plan.cores or bool(core_numbers(plan.cores)), "a list like 4-7"),
        "sustained": (plan.sustained_minutes is None or plan.sustained_minutes > 0, "minutes above 0"),
    }
    for name, (valid, allowed) in ranges.items():
        if not valid:
            raise InputError(f"{name} is outside its range.", where=f"--{name}", fix=f"give {allowed}", code="E156")
    if rows + plan.prompt_tokens + plan.new_tokens > context:
        beside = f" and {rows} of the image or sound" if rows else ""
        raise InputError(
            f"{plan.prompt_tokens} prompt tokens{beside} and {plan.new_tokens} new ones exceed the context, {context}.",
            where="--prompt-tokens, --new-tokens",
            fix=f"ask for at most {context - rows} in total, for instance --prompt-tokens {(context - rows) // 2}",
            code="E150",
        )


def save_plot(records: Sequence[AnyRecord], path: Path) -> Path:
    """Write the SVG; returns its path.

    Raises:
        InputError: E121, the path cannot be written.
    """
    with typed_os_errors(path):
        path.write_text(plot(records))
    return path


def plot(records: Sequence[AnyRecord]) -> str:
    """The run as one SVG document."""
    name = f"{records[0].subject.name} on {records[0].comparability.device} (measured)"
    laps = [r for r in records if isinstance(r, RepetitionRecord)]
    lines = [Series(f"repetition {r.index}", tuple(range(1, r.tokens)), tuple(r.token_ms)) for r in laps]
    boxes = [Series(str(r.index), (), tuple(r.token_ms)) for r in laps]
    charts = [
        line_chart(f"Inter-token latency: {name}", "new token", "ms", lines),
        box_chart(f"Inter-token latency by repetition: {name}", "repetition", "ms", boxes),
    ]
    steady = [r for r in records if isinstance(r, SustainedRecord)]
    if steady:
        minutes, speeds = tuple(r.elapsed_s / 60 for r in steady), tuple(r.decode_tokens_per_s for r in steady)
        line = Series("decode", minutes, speeds)
        charts.append(line_chart(f"Sustained decode: {name}", "minutes", "tokens/s", [line]))
    return stack(charts)
