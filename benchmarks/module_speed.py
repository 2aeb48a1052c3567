"""Speed, bytes and error of trained networks on this CPU, beside ExecuTorch's XNNPACK recipe and ONNX Runtime.

    EDGEC_REAL_PACKAGES=FOLDER python -m benchmarks.module_speed [NETWORK ...] [--threads 1 2] [--recipes float 8bit]

Networks and inputs are those of ``benchmarks.real_modules``, engines those of ``benchmarks.module_engines``. Of 16
inputs ranges are calibrated, 32 others are compared with the network itself. All `.pte` files run in the same engine.
Every file is made before the first call is timed (``--files FOLDER`` keeps them for the next run, ``--threads`` alone
makes them and times nothing). Engines take turns of a few calls, with a pause before each turn in which another's
threads stop spinning; medians are printed. In float there are also edgec's package for iPhones and coremltools'
conversion to float16: both run in edgec's interpreter, for bytes and differences, not for times. Edgec's budgets are
lifted, so that every net is in 8 bits. An engine that refuses a network has its words in its row.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from benchmarks.module_engines import Call, Job, Refused, Subject, files, subjects
from benchmarks.real_modules import GIVEN, NETWORKS, listed
from benchmarks.real_networks.network import FOLDER, Inputs, Network

_HELD_OUT, _TURNS, _CALLS = 32, 10, 5
_PAUSE_S = 0.05


def measured(
    found: Sequence[Subject | Refused], network: Network, held_out: Sequence[Inputs]
) -> Iterator[tuple[str, ...]]:
    """The rows of a table: bytes, median milliseconds of a call, and the difference in the network's unit."""
    module = network.make()[0]
    with torch.no_grad():
        wanted = [listed(module(*x)) for x in held_out]
    running = [each for each in found if isinstance(each, Subject)]
    times: Mapping[str, list[float]] = {each.name: [] for each in running}
    for turn in range(_TURNS):
        for each in (each for each in running if not each.simulated):
            time.sleep(_PAUSE_S)
            times[each.name] += _timed(each.call, held_out[turn % len(held_out)])[1:]
    unit, differ = network.unit
    for one in found:
        if isinstance(one, Refused):
            yield one.name, "", "", "", one.why
            continue
        gaps = [differ(own, listed(one.call(x))) for own, x in zip(wanted, held_out, strict=True)]
        taken = times[one.name]
        spent = (f"{np.median(taken):.3g}", f"{min(taken):.3g}") if taken else ("", "")
        yield one.name, f"{one.size:,}", *spent, f"{np.median(gaps):.2g} / {max(gaps):.2g} {unit}"


def _timed(call: Call, inputs: Inputs) -> list[float]:
    """Milliseconds of each of a few calls; the first finds cold caches."""
    taken = []
    for _ in range(_CALLS):
        started = time.perf_counter()
        call(inputs)
        taken.append(1e3 * (time.perf_counter() - started))
    return taken


def main() -> None:
    """Print a line for each network, recipe, number of threads and engine."""
    from edgec.runtime_py.engines.threads import set_threads

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="among: " + ", ".join(NETWORKS))
    parser.add_argument("--threads", nargs="*", type=int, default=[1])
    parser.add_argument("--recipes", nargs="+", default=["float", "8bit"])
    parser.add_argument("--files", type=Path, metavar="FOLDER", help="keep what is made here")
    asked = parser.parse_args()
    if unknown := [*filter(lambda name: name not in NETWORKS, asked.networks)]:
        parser.error(f"no network is called {', '.join(unknown)}; there are {', '.join(NETWORKS)}")
    if FOLDER not in os.environ:
        raise SystemExit(f"{FOLDER} names no folder with the unzipped packages; see benchmarks/real_modules.py")
    with TemporaryDirectory() if asked.files is None else nullcontext(asked.files) as folder:
        jobs = [*_jobs(asked.networks or NETWORKS, asked.recipes, Path(folder))]
        made = [dict(files(job)) for job, _ in jobs]  # All of it before the first clock starts.
        print("| network | recipe | threads | engine | bytes | median, ms | least, ms | median / worst difference |")
        print("|---|---|---|---|---|---|---|---|")
        for (job, held_out), found in zip(jobs, made, strict=True):
            for threads in asked.threads:
                opened = [*subjects(job, found, threads)]
                set_threads(threads)
                for row in measured(opened, job.network, held_out):
                    print(f"| {job.name} | {job.recipe} | {threads} | {' | '.join(row)} |", flush=True)


def _jobs(names: Iterable[str], recipes: Sequence[str], folder: Path) -> Iterator[tuple[Job, Sequence[Inputs]]]:
    """What to make, and the inputs to compare on."""
    for name in names:
        drawn = torch.Generator().manual_seed(1)
        inputs = [NETWORKS[name].drawn(drawn) for _ in range(GIVEN + _HELD_OUT)]
        for recipe in recipes:
            yield Job(name, recipe, inputs[:GIVEN], folder / f"{name}-{recipe}"), inputs[GIVEN:]


if __name__ == "__main__":
    main()
