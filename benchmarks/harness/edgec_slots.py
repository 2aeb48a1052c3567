"""edgec's sessions as the server uses them: each answer written by a thread of its own, calls shared by the scheduler.

The loop of `serving_load` is not used: threads write as fast as they are served. HTTP, text and templates are left out.
A job has ``artifact`` (the bundle), ``threads``, ``sequences`` and ``loads``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from threading import Barrier, Event, Thread
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks.harness.serving_load import Load, Measured, gaps_between, random_prompt

if TYPE_CHECKING:
    from edgec.runtime_py.serve.slot_schedulers import BatchedSlots

WORKER = "benchmarks.harness.edgec_slots"


class Answers:
    """Answers to seeded random prompts on a slots."""

    def __init__(self, slots: BatchedSlots, vocab_size: int, load: Load) -> None:
        self._slots, self._vocabulary, self._load = slots, vocab_size, load
        self.stopped = Event()

    def tokens(self, seed: int) -> Iterator[int]:
        """The likeliest tokens after a prompt, until the context is full or ``stopped``."""
        from edgec.runtime_py.decoding.sampling import Sampler, Sampling
        from edgec.runtime_py.generation.generate import GenerationRequest, stream_tokens
        from edgec.runtime_py.serve.wanted_answer import WantedAnswer

        prompt = list(random_prompt(seed, self._load.prompt_tokens, self._vocabulary))
        wanted = WantedAnswer(tuple(prompt), GenerationRequest())
        with self._slots.slot(wanted, lambda: None) as (stepper, memory):
            for token in stream_tokens(stepper, prompt, Sampler(Sampling()), memory.recall(prompt)):
                yield token
                if self.stopped.is_set():
                    return


class Writer(Thread):
    """A thread that writes: first together with the others for the throughput, then until it is stopped."""

    def __init__(self, answers: Answers, seed: int, steps: int, all_there: Barrier, done: Barrier) -> None:
        super().__init__(daemon=True)
        self._answers, self._seed, self._steps, self._barriers = answers, seed, steps, (all_there, done)
        self.times: list[float] = []

    def run(self) -> None:
        """Write."""
        for count, _ in enumerate(self._answers.tokens(self._seed)):
            if count in (0, self._steps):
                self._barriers[count > 0].wait()
            self.times.append(perf_counter())


def measure(slots: BatchedSlots, vocab_size: int, load: Load) -> Measured:
    """Measure one load, as `benchmarks.harness.serving_load.measure` does."""
    answers, meet = Answers(slots, vocab_size, load), [Barrier(load.sessions + 1) for _ in range(2)]
    writers = [Writer(answers, 50_000 + i, load.steps, *meet) for i in range(load.sessions)]
    for writer in writers:
        writer.start()
    meet[0].wait()
    begun = perf_counter()
    meet[1].wait()
    seconds = perf_counter() - begun
    waited, gaps = [], list[float]()
    for seed in range(load.arrivals + 1):
        before = perf_counter()
        stream = answers.tokens(1000 + seed)
        next(stream)
        after = perf_counter()
        stream.close()  # type: ignore[attr-defined]
        waited.append((after - before) * 1e3)
        gaps += [gap for writer in writers for gap in gaps_between(writer.times, before, after)] if seed else []
    answers.stopped.set()
    for writer in writers:
        writer.join()
    return Measured(load.sessions, load.sessions * load.steps / seconds, tuple(waited[1:]), tuple(gaps))


def work(job: Mapping[str, Any]) -> list[Measured]:
    """Measure all loads of a job."""
    import edgec
    from edgec.bundle.folder import open_bundle
    from edgec.runtime_py.serve.slot_schedulers import BatchedSlots

    model, measured = edgec.load(open_bundle(Path(job["artifact"]), check_files=False), job["threads"]), []
    for fields in job["loads"]:
        load = Load(**fields)
        slots = BatchedSlots(model, load.sessions + 1, load.chunk)
        measured.append(measure(slots, int(model.bundle.manifest.model.vocab_size or 0), load))
        slots.close()
    return measured


if __name__ == "__main__":
    rows = [asdict(one) for one in work(json.load(sys.stdin))]
    print("\n" + json.dumps({"rows": rows}))
