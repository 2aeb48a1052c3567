"""A run's figures as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from edgec.devices.transport import DeviceFacts
from edgec.runtime_py.bench.bench import BenchResult
from edgec.runtime_py.bench.record import AnyRecord, ProfileRecord, RepetitionRecord, RunRecord
from edgec.runtime_py.bench.summary import shown
from edgec.terminal import WordTable

_BUSY = 0.5


def table(result: BenchResult) -> WordTable:
    """One row per figure, with device and conditions in the title; for an emulator only what was computed."""
    head = next(r for r in result.records if isinstance(r, RunRecord))
    key = head.comparability
    # Text, since a device may have brackets in its name.
    threads = "1 thread" if key.threads == 1 else f"{key.threads} threads"
    added = f" with adapter {head.subject.adapter[:12]}" if head.subject.adapter else ""
    title = Text(f"{head.subject.name}{added} on {key.device}: {key.machine}, {threads}")
    out = WordTable(title=title, caption=Text(_caption(head)))
    for column in ("", "median", "min", "max", "unit", "n"):
        out.add_column(column, justify="left" if column in ("", "unit") else "right")
    if head.simulated:
        laps = [record for record in result.records if isinstance(record, RepetitionRecord)]
        out.add_row("generations", str(len(laps)), "", "", f"of {laps[0].tokens} tokens" if laps else "", "")
    for row in result.figures:
        out.add_row(row.name, shown(row.median), shown(row.low), shown(row.high), row.unit, str(row.count))
    return out


def load_warning(head: RunRecord) -> str:
    """Why the figures of this machine are not to be trusted; empty where its load was low, or for other devices.

    More than half a runnable task per core before the run is too much. A phone's load average says little: it counts
    tasks that wait for hardware.
    """
    load, cores = head.before.load_average, head.before.cores
    if head.comparability.device != "host" or load is None or load <= _BUSY * cores:
        return ""
    return (
        f"warning: the machine was busy before the run (load average {load:.1f} on {cores} cores); "
        "speeds are too low and vary; measure again when it is idle"
    )


def profile_tables(records: Sequence[AnyRecord]) -> list[WordTable]:
    """The tables of time by operator, one for each profiled phase."""
    return [_profile_table(record) for record in records if isinstance(record, ProfileRecord)]


def _profile_table(profile: ProfileRecord) -> WordTable:
    unit = {"prefill": f"prefill of {profile.tokens} tokens", "decode": "decoded token"}[profile.phase]
    title = f"Where the time goes, per {unit}: {shown(profile.ms)} ms"
    out = WordTable(title=title, caption=Text(f"{profile.obtained}; mean of {profile.repetitions}"))
    for column in ("operator", "calls", "ms", "share"):
        out.add_column(column, justify="left" if column == "operator" else "right")
    for row in profile.operators:
        out.add_row(Text(row.operator), shown(row.calls), shown(row.ms), f"{row.share:.1%}")
    return out


def _phone_facts(facts: DeviceFacts) -> dict[str, object]:
    """The facts that only phones report."""
    rows = {
        "battery": None if facts.battery_percent is None else f"{facts.battery_percent:.0f} %",
        "charging": None if facts.charging is None else "yes" if facts.charging else "no",
        "screen": None if facts.screen_on is None else "on" if facts.screen_on else "off",
        "thermal status": facts.thermal_status,
        "cores": facts.affinity,
    }
    return {name: value for name, value in rows.items() if value is not None}


def _caption(head: RunRecord) -> str:
    key, before = head.comparability, head.before
    if head.simulated:
        return f"simulated by {before.cpu}: the results are real; times and memory are not a phone's, so not shown"
    facts = {
        "governor": before.governor,
        "clock": None if before.clock_mhz is None else f"{before.clock_mhz:.0f} MHz",
        "load average before": None if before.load_average is None else f"{before.load_average:.2f}",
        "temperature": None if before.temperature_c is None else f"{before.temperature_c:.0f} °C",
        **_phone_facts(before),
        "energy": head.energy_j,
    }
    shown_with = f" with {key.shown}" if key.shown else ""
    said = ", ".join(f"{name} {'unavailable' if value is None else value}" for name, value in facts.items())
    return (
        f"measured: prompt {key.prompt_tokens}{shown_with}, new {key.new_tokens} tokens (end-of-sequence ignored), "
        f"{head.warmups} warm-ups; {key.runtime}; {said}"
    )
