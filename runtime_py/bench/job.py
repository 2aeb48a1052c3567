"""The measurements inside one process: a load, a peak of memory, repetitions, a profile, or a sustained run.

A job is plain data, so that a transport can send it anywhere: ``Job`` in, a dictionary of figures out.
``python -m edgec.runtime_py.bench.job`` reads one as JSON from stdin and prints its result or its error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import islice, pairwise
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

from edgec.bundle.folder import Bundle, open_bundle
from edgec.devices.job import Job, core_numbers, job_from_json
from edgec.errors import EdgecError, InputError
from edgec.memory_use import begin_peak, peak_bytes, peak_since_begun, resident_bytes
from edgec.page_cache import drop_pages, resident_share, warm_pages
from edgec.processor_share import stay_on
from edgec.runtime_py.bench import litert_lm
from edgec.runtime_py.bench.lap import Lap, Laps
from edgec.runtime_py.bench.shown_prompt import ShownPrompt, open_session, prompt_of
from edgec.runtime_py.decoding.sampling import Sampler, Sampling
from edgec.runtime_py.decoding.stepper import Stepper
from edgec.runtime_py.engines.choice import engine_for
from edgec.runtime_py.engines.instructions import linear_kernel, linear_kernels
from edgec.runtime_py.engines.threads import set_threads
from edgec.runtime_py.engines.trial import try_first
from edgec.runtime_py.generation.generate import stream_tokens
from edgec.runtime_py.sessions.session import Session

WINDOW_S = 1.0


def lap(stepper: Stepper, asked: ShownPrompt, new_tokens: int) -> Lap:
    """Encode the images or audio, and generate greedily from an empty cache, past any end-of-sequence token.

    Raises:
        InputError: E162, no token came.
    """
    times = [perf_counter()]
    asked.begin(stepper)
    times += [perf_counter() for _ in islice(stream_tokens(stepper, asked.tokens, Sampler(Sampling())), new_tokens)]
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
    if job.cores:
        stay_on(core_numbers(job.cores))
    # Neither an import nor an artifact's first execution is part of a load.
    bundle = _bundle(job)
    if bundle.manifest.format != litert_lm.FORMAT:
        try_first(bundle, engine_for(bundle))
    return jobs[job.kind](job)


def _bundle(job: Job) -> Bundle:
    # The parent has verified the checksums; hashing here would fill the page cache and the peak.
    return open_bundle(Path(job.bundle), check_files=False)


class SessionLaps:
    """Generations of a bundle's session."""

    def __init__(self, bundle: Bundle, job: Job) -> None:
        """Open the session."""
        self.session: Session = open_session(bundle, job.threads)
        self.session.adapter = job.adapter
        self._asked, self._new_tokens = prompt_of(bundle, job.prompt_tokens), job.new_tokens

    @property
    def facts(self) -> dict[str, Any]:
        """What a record says of the engine."""
        common = {"threads": self.session.threads, "engine": self.session.engine}
        kernels = {"linear_kernel": linear_kernel(), "linear_kernels": linear_kernels()}
        return {**common, **kernels} if self.session.engine == "edgec" else common

    def lap(self) -> Lap:
        """Generate once."""
        return lap(self.session, self._asked, self._new_tokens)


def _opened(bundle: Bundle, job: Job) -> Laps:
    if bundle.manifest.format == litert_lm.FORMAT:
        return litert_lm.LitertLmLaps(bundle.artifact_path, job, bundle.manifest.name)
    return SessionLaps(bundle, job)


def _load(job: Job) -> dict[str, Any]:
    bundle = _bundle(job)
    files = [file for file in bundle.artifact_files if file.stat().st_size]
    for file in files:
        {"cold": drop_pages, "warm": warm_pages}[job.state](file)
    share = _resident_share(files)
    before = perf_counter()
    _opened(bundle, job)
    return {"state": job.state, "load_ms": (perf_counter() - before) * 1e3, "resident_share": share}


def _resident_share(files: Sequence[Path]) -> float | None:
    """Share of the bytes of all files in memory; None where that is unavailable."""
    shares, sizes = [resident_share(file) for file in files], [file.stat().st_size for file in files]
    known = [share * size for share, size in zip(shares, sizes, strict=True) if share is not None]
    return sum(known) / sum(sizes) if len(known) == len(files) else None


def _memory(job: Job) -> dict[str, Any]:
    resettable = begin_peak()
    baseline = resident_bytes() if resettable else peak_bytes()
    _opened(_bundle(job), job).lap()
    peak = peak_since_begun() if resettable else peak_bytes()
    how = "VmHWM of /proc, reset before the load" if resettable else "ru_maxrss of the whole process"
    return {"peak_rss_bytes": peak, "baseline_rss_bytes": baseline, "obtained": how}


def _profile(job: Job) -> dict[str, Any]:
    from edgec.runtime_py.bench.profile import profile_bundle

    bundle = _bundle(job)
    if bundle.manifest.format == litert_lm.FORMAT:
        raise litert_lm.unprofiled(bundle)
    threads = set_threads(job.threads)
    prompt = prompt_of(bundle, job.prompt_tokens).tokens
    return {"threads": threads, **profile_bundle(bundle, prompt, job.new_tokens - 1, job.repetitions, job.adapter)}


def _speed(job: Job) -> dict[str, Any]:
    opened, laps = _opened(_bundle(job), job), []
    for _ in range(job.warmups + job.repetitions):
        sleep(job.cool_down_s)
        laps.append(asdict(opened.lap()))
    return {**opened.facts, "laps": laps[job.warmups :]}


def _sustained(job: Job) -> dict[str, Any]:
    opened, start = _opened(_bundle(job), job), perf_counter()
    windows = []
    while (elapsed := perf_counter() - start) < job.seconds:
        windows.append(_window(opened) | {"elapsed_s": elapsed})
    return {"threads": opened.facts["threads"], "windows": windows}


def _window(opened: Laps) -> dict[str, float | None]:
    """Generate for at least WINDOW_S, and read the clock and temperature afterwards."""
    from edgec.devices.host import HostTransport

    start, gaps = perf_counter(), list[float]()
    while perf_counter() - start < WINDOW_S:
        gaps += opened.lap().gaps_s
    facts = HostTransport().facts()
    return {
        "decode_tokens_per_s": len(gaps) / sum(gaps),
        "clock_mhz": facts.clock_mhz,
        "temperature_c": facts.temperature_c,
    }


def main() -> int:
    """Run the job; the exit status is the error's."""
    try:
        print(json.dumps({"result": run_job(job_from_json(json.load(sys.stdin)))}))
    except EdgecError as error:
        print(json.dumps({"error": error.to_json()}))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
