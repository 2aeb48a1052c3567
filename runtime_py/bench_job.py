"""What is measured inside one process: a load, a peak of memory, repetitions, a profile, or minutes on end.

A job is plain data, so that a transport can send it anywhere: ``Job`` in, a dictionary of figures out.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from itertools import islice, pairwise
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from edgec.errors import InputError
from edgec.runtime_py import page_cache
from edgec.runtime_py.executor import choose_engine
from edgec.runtime_py.generate import stream_tokens
from edgec.runtime_py.native import set_threads
from edgec.runtime_py.sampling import Sampler, Sampling
from edgec.runtime_py.session import Session
from edgec.runtime_py.stepper import Stepper

if TYPE_CHECKING:
    from edgec.exporter.bundle.folder import Bundle

CLEAR_REFS, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
WINDOW_S = 1.0


@dataclass(frozen=True)
class Job:
    """One job. ``kind``: load, memory, speed, profile or sustained; ``state`` of the page cache: cold or warm."""

    kind: str
    bundle: str
    prompt_tokens: int
    new_tokens: int
    threads: int | None = None
    state: str = "warm"
    warmups: int = 0
    repetitions: int = 1
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """The job as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Lap:
    """One generation: seconds to the first token, and from each token to the next."""

    ttft_s: float
    gaps_s: tuple[float, ...]


def bench_prompt(count: int, vocab_size: int) -> list[int]:
    """Seeded random token ids: the speed of a dense model does not depend on them."""
    return np.random.default_rng(0).integers(0, vocab_size, count).tolist()


def lap(stepper: Stepper, prompt: list[int], new_tokens: int) -> Lap:
    """Generate greedily from an empty cache, past any end-of-sequence token.

    Raises:
        InputError: E162, no token came.
    """
    times = [perf_counter()]
    times += [perf_counter() for _ in islice(stream_tokens(stepper, prompt, Sampler(Sampling())), new_tokens)]
    if len(times) == 1:
        raise InputError("No token was generated.", where="bench", fix="ask for at least one", code="E162")
    ttft_s, *gaps = (after - before for before, after in pairwise(times))
    return Lap(ttft_s, tuple(gaps))


def run_job(job: Job) -> dict[str, Any]:
    """Run a job in this process.

    Raises:
        EdgecError: the bundle cannot be opened or executed, or E162.
    """
    jobs: dict[str, Callable[[Job], dict[str, Any]]] = {
        "load": _load,
        "memory": _memory,
        "speed": _speed,
        "profile": _profile,
        "sustained": _sustained,
    }
    # An import is no part of a load.
    choose_engine(_bundle(job).manifest.runtime.operators)
    return jobs[job.kind](job)


def _bundle(job: Job) -> Bundle:
    from edgec.exporter.bundle.folder import open_bundle

    # The parent has verified the checksums; hashing here would fill the page cache and the peak.
    return open_bundle(Path(job.bundle), check_files=False)


def _session(job: Job) -> Session:
    return Session(_bundle(job), job.threads)


def _load(job: Job) -> dict[str, Any]:
    bundle = _bundle(job)
    {"cold": page_cache.drop, "warm": page_cache.warm}[job.state](bundle.artifact_path)
    share = page_cache.resident_share(bundle.artifact_path)
    before = perf_counter()
    Session(bundle, job.threads)
    return {"state": job.state, "load_ms": (perf_counter() - before) * 1e3, "resident_share": share}


def _memory(job: Job) -> dict[str, Any]:
    resettable = _reset_peak()
    baseline = _status_bytes("VmRSS") if resettable else _peak_of_process()
    session = _session(job)
    lap(session, _prompt(job, session), job.new_tokens)
    peak = _status_bytes("VmHWM") if resettable else _peak_of_process()
    how = "VmHWM of /proc, reset before the load" if resettable else "ru_maxrss of the whole process"
    return {"peak_rss_bytes": peak, "baseline_rss_bytes": baseline, "obtained": how}


def _reset_peak() -> bool:
    try:
        CLEAR_REFS.write_text("5")
    except OSError:
        return False
    return True


def _status_bytes(field: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024


def _peak_of_process() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _prompt(job: Job, session: Session) -> list[int]:
    return bench_prompt(job.prompt_tokens, _vocab_size(session.bundle))


def _vocab_size(bundle: Bundle) -> int:
    return int(bundle.manifest.methods[0].outputs[0].shape[-1])


def _profile(job: Job) -> dict[str, Any]:
    from edgec.runtime_py.bench_profile import profile_bundle

    bundle = _bundle(job)
    threads = set_threads(job.threads)
    prompt = bench_prompt(job.prompt_tokens, _vocab_size(bundle))
    return {"threads": threads, **profile_bundle(bundle, prompt, job.new_tokens - 1, job.repetitions)}


def _speed(job: Job) -> dict[str, Any]:
    session = _session(job)
    prompt = _prompt(job, session)
    for _ in range(job.warmups):
        lap(session, prompt, job.new_tokens)
    laps = [asdict(lap(session, prompt, job.new_tokens)) for _ in range(job.repetitions)]
    return {"threads": session.threads, "engine": session.engine, "laps": laps}


def _sustained(job: Job) -> dict[str, Any]:
    session = _session(job)
    prompt, start = _prompt(job, session), perf_counter()
    windows = []
    while (elapsed := perf_counter() - start) < job.seconds:
        windows.append(_window(session, prompt, job.new_tokens) | {"elapsed_s": elapsed})
    return {"threads": session.threads, "windows": windows}


def _window(session: Session, prompt: list[int], new_tokens: int) -> dict[str, float | None]:
    """Generations for at least WINDOW_S, and the clock and temperature behind them."""
    from edgec.devices.host import HostTransport

    start, gaps = perf_counter(), list[float]()
    while perf_counter() - start < WINDOW_S:
        gaps += lap(session, prompt, new_tokens).gaps_s
    facts = HostTransport().facts()
    return {
        "decode_tokens_per_s": len(gaps) / sum(gaps),
        "clock_mhz": facts.clock_mhz,
        "temperature_c": facts.temperature_c,
    }


def job_from_json(fields: Mapping[str, Any]) -> Job:
    """A job that came over a transport."""
    return Job(**fields)
