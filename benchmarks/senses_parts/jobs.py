"""One measuring job about a sense inside one process, the same for every runtime.

Standard library and numpy: the peers' environments run this module too. A worker calls ``serve`` with a function that
loads its model; the job comes as JSON on stdin, the result goes as JSON to the last line of stdout.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.cases import Case
from benchmarks.harness.jobs import Sample, reset_peak, status_bytes, timed, watched

AGREEMENT_TOKENS = 8
"""Tokens that are written, and whose logits are compared, where a model writes."""
Arrays = Mapping[str, NDArray[Any]]
Job = Mapping[str, Any]


def _nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Work:
    """What a case measures.

    Attributes:
        run: what is timed.
        prepare: what must have happened, before the clock runs.
        less: timed after it and taken off, where a runtime cannot do the case alone.
    """

    run: Callable[[], object]
    prepare: Callable[[], object] = _nothing
    less: Callable[[], object] | None = None

    def sample(self, case: str) -> Sample:
        """Do it once."""
        self.prepare()
        whole = timed(case, self.run)
        if self.less is None:
            return whole
        part = timed(case, self.less)
        return Sample(case, whole.wall_s - part.wall_s, whole.cpu_s - part.cpu_s)


@dataclass(frozen=True)
class Sense:
    """A loaded model.

    Attributes:
        works: by the name of the case.
        outputs: what is compared with transformers, by name.
    """

    works: Mapping[str, Work]
    outputs: Callable[[], Arrays]


OpenSense = Callable[[Job], Sense]


def _measure_speed(job: Job, open_sense: OpenSense) -> dict[str, Any]:
    opened: list[Sense] = []
    samples = [timed("load", lambda: opened.append(open_sense(job)))]
    for case in (Case(**fields) for fields in job["cases"]):
        work = opened[0].works[case.name]
        repetitions = [work.sample(case.name) for _ in range(case.warmups + case.repeats)]
        samples += repetitions[case.warmups :]
    return {"samples": [asdict(sample) for sample in samples]}


def _measure_memory(job: Job, open_sense: OpenSense) -> dict[str, Any]:
    """The most resident memory of a load and of the largest cases, and that of the idle process before."""
    resettable, idle = reset_peak(), status_bytes("VmRSS")
    sense = open_sense(job)
    for name in job["cases"]:
        sense.works[name].sample(name)
    source = "VmHWM, reset before the load" if resettable else "VmHWM of the whole process"
    return {"peak_bytes": status_bytes("VmHWM"), "idle_bytes": idle, "obtained": f"measured: {source}"}


def _write_outputs(job: Job, open_sense: OpenSense) -> dict[str, Any]:
    made: dict[str, Any] = dict(open_sense(job).outputs())
    np.savez(Path(job["out"]), **made)
    return {"names": sorted(made)}


_KINDS: Mapping[str, Callable[[Job, OpenSense], dict[str, Any]]] = {
    "speed": _measure_speed,
    "memory": _measure_memory,
    "outputs": _write_outputs,
}


def serve(open_sense: Mapping[str, OpenSense], prepare: Callable[[Job], object] = lambda job: None) -> None:
    """Run the job on stdin; native libraries may write to stdout before the result, so it goes on a separate line.

    Args:
        open_sense: by the job's ``sense``, what loads its model; its time is the load's.
        prepare: imports libraries before any clock runs, since an import is not part of a load.
    """
    job = json.load(sys.stdin)
    prepare(job)
    result = watched(lambda: _KINDS[job["kind"]](job, open_sense[job["sense"]]))
    print("\n" + json.dumps(result), flush=True)


def written_greedily(
    first: NDArray[np.float32], given: Mapping[str, Any], step: Callable[[int, int], NDArray[np.float32]], count: int
) -> tuple[list[int], list[NDArray[np.float32]]]:
    """The tokens that a decoder read, its prompt first, and the logits [V] after the prompt and after each token.

    Args:
        first: the logits after the prompt.
        given: of the case: its ``prompt``, and ``end``, the token that is never chosen.
        step: feeds a token at a position and returns the logits after it.
        count: how many logits to return.
    """
    tokens, rows = list(given["prompt"]), [first]
    while len(rows) < count:
        tokens.append(likeliest(rows[-1], given["end"]))
        rows.append(step(tokens[-1], len(tokens) - 1))
    return tokens, rows


def likeliest(logits: NDArray[np.float32], end: int) -> int:
    """The token with the largest logit that does not end the text, so that all texts have the same length."""
    best = int(logits.argmax())
    if best != end:
        return best
    others = logits.copy()
    others[end] = -np.inf
    return int(others.argmax())
