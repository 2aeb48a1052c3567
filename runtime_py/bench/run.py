"""One measured run: the jobs of a bundle on a device, and the records made of their answers."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from platform import mac_ver
from typing import Any

from edgec.bundle.folder import Bundle
from edgec.devices.job import Job
from edgec.devices.simulators import mac_runtime_of
from edgec.devices.transport import DeviceFacts, Say, Transport
from edgec.installation import __version__
from edgec.runtime_py.adapters.adapter_file import read_adapter
from edgec.runtime_py.bench.measured_model import measured_model
from edgec.runtime_py.bench.record import (
    AnyRecord,
    Comparability,
    LoadRecord,
    MemoryRecord,
    ProfileRecord,
    RepetitionRecord,
    RunRecord,
    Subject,
    SustainedRecord,
)
from edgec.runtime_py.bench.shown_prompt import shown_with
from edgec.runtime_py.engines.instructions import kernel_text
from edgec.runtime_py.sessions.session import text_limits

LOADS = 3
ENGINES = {"edgec": "edgec's engine", "executorch": "Python binding"}
WALL = "measured: wall clock of a fresh process"
SIMULATED = "simulated: wall clock of an emulator, not a speed"


def measure(
    transport: Transport, bundle: Bundle, job: Job, seconds: float, extra: Sequence[str], say: Say
) -> list[AnyRecord]:
    """Run all jobs and return the records, the run's conditions first.

    Args:
        transport: the device.
        bundle: the bundle to measure there.
        job: prompt, tokens, repetitions, cores and pauses of every job.
        seconds: length of the sustained run; 0: none.
        extra: further kinds of jobs, ``profile``.
        say: told what is being measured.

    Raises:
        EdgecError: a job failed.
    """
    started, before = datetime.now(UTC).isoformat(timespec="seconds"), _facts(transport, job)
    say(f"speed: {job.warmups} warm-ups and {job.repetitions} repetitions")
    speed = transport.run(job.to_json())
    common = _common(transport, bundle, job, int(speed["threads"]), _runtime(bundle, speed))
    repetitions = [_repetition(common, job, i, lap) for i, lap in enumerate(speed["laps"])]
    _, *loads, memory = planned_jobs(job)
    loaded = [_load(transport, common, planned, say) for planned in loads]
    peak = _memory(transport, common, memory, say)
    profiles = [row for kind in extra for row in _profile(transport, common, replace(job, kind=kind), say)]
    sustained = _sustained(transport, common, replace(job, kind="sustained", seconds=seconds), say)
    head = RunRecord(
        **common,
        obtained="simulated" if transport.simulated else "measured",
        started=started,
        edgec_version=__version__,
        warmups=job.warmups,
        repetitions=job.repetitions,
        ignore_eos=True,
        before=before,
        after=_facts(transport, job),
        energy_j=None,
        cool_down_s=job.cool_down_s,
    )
    return [head, *loaded, peak, *repetitions, *profiles, *sustained]


def _facts(transport: Transport, job: Job) -> DeviceFacts:
    return replace(transport.facts(), affinity=job.cores)


def planned_jobs(job: Job) -> list[Job]:
    """The jobs of every run, in order: the generations, cold and warm loads in turn, the memory pass."""
    loads = [replace(job, kind="load", state=state) for _ in range(LOADS) for state in ("cold", "warm")]
    return [job, *loads, replace(job, kind="memory")]


def _runtime(bundle: Bundle, speed: Mapping[str, Any]) -> str:
    """The runtime, its engine, and the instructions of its linear kernels where the artifact has matrices for them.

    LiteRT-LM says itself what it is.
    """
    if "runtime" in speed:
        return str(speed["runtime"])
    if speed["engine"] == "apple":
        # Core ML has no version of its own.
        return f"{mac_runtime_of(bundle.manifest)}, macOS {mac_ver()[0]}"
    base = f"{bundle.manifest.runtime.name} {version('executorch')}, {ENGINES[speed['engine']]}"
    delegation, kernel = bundle.manifest.delegation, speed.get("linear_kernel")
    if not kernel or delegation is None or "edgec_linear" not in delegation.backend:
        return base
    return f"{base}, {kernel_text(kernel, speed.get('linear_kernels') or ())}"


def _common(transport: Transport, bundle: Bundle, job: Job, threads: int, runtime: str) -> dict[str, Any]:
    """The fields that every record of a run shares."""
    manifest = bundle.manifest
    revision = f"@{manifest.model.revision}" if manifest.model.revision else ""
    comparability = Comparability(
        device=str(transport.address),
        machine=transport.facts().machine,
        model=f"{manifest.model.name}{revision}",
        model_parameters=manifest.model.parameters,
        prompt_tokens=job.prompt_tokens,
        new_tokens=job.new_tokens,
        threads=threads,
        cores=job.cores,
        runtime=runtime,
        shown=shown_with(bundle),
    )
    subject = Subject(
        name=manifest.name,
        digest=manifest.digest,
        recipe=manifest.recipe_name,
        target=manifest.target,
        artifact_bytes=sum(file.stat().st_size for file in bundle.artifact_files),
        context=text_limits(bundle).context,
        adapter=read_adapter(Path(job.adapter)).digest if job.adapter else None,
        measured=measured_model(manifest),
    )
    identity = {"run": secrets.token_hex(8), "comparability": comparability, "subject": subject}
    return {**identity, "simulated": transport.simulated}


def _wall(common: Mapping[str, Any]) -> str:
    return SIMULATED if common["simulated"] else WALL


def _load(transport: Transport, common: Mapping[str, Any], job: Job, say: Say) -> LoadRecord:
    say(f"{job.state} load")
    result = transport.run(job.to_json())
    page_cache = {"cold": "page cache of the artifact dropped", "warm": "artifact read once before"}[job.state]
    return LoadRecord(**common, obtained=f"{_wall(common)}; {page_cache}", **result)


def _memory(transport: Transport, common: Mapping[str, Any], job: Job, say: Say) -> MemoryRecord:
    say("memory")
    result = transport.run(job.to_json())
    kind = "simulated" if common["simulated"] else "measured"
    return MemoryRecord(**common, **(result | {"obtained": f"{kind}: {result['obtained']}"}))


def _repetition(common: Mapping[str, Any], job: Job, index: int, lap: Mapping[str, Any]) -> RepetitionRecord:
    gaps = [1e3 * gap for gap in lap["gaps_s"]]
    return RepetitionRecord(
        **common,
        obtained=f"{_wall(common)}, after {job.warmups} warm-ups",
        index=index,
        ttft_ms=1e3 * lap["ttft_s"],
        prefill_tokens_per_s=job.prompt_tokens / lap["ttft_s"],
        decode_tokens_per_s=len(gaps) / sum(lap["gaps_s"]) if gaps else None,
        token_ms=gaps,
        tokens=len(gaps) + 1,
        finish_reason="length" if len(gaps) + 1 == job.new_tokens else "context",
    )


def _profile(transport: Transport, common: Mapping[str, Any], job: Job, say: Say) -> list[ProfileRecord]:
    say("where the time goes")
    record = partial(ProfileRecord, **common, obtained=f"{_wall(common)} that times every instruction")
    return [record(**phase) for phase in transport.run(job.to_json())["phases"]]


def _sustained(transport: Transport, common: Mapping[str, Any], job: Job, say: Say) -> list[SustainedRecord]:
    if not job.seconds:
        return []
    say(f"sustained: {job.seconds / 60:g} minutes")
    record = partial(SustainedRecord, **common, obtained=_wall(common))
    return [record(**window) for window in transport.run(job.to_json())["windows"]]
