"""What adapters cost while a bundle runs: python -m benchmarks.adapters BUNDLE [--rank N] [--threads N] [--json].

Two random adapters on every matrix of the bundle's layers. Measured, wall, medians with the fastest and the slowest:
reading an adapter's file; a session's first switch to it, given as a file's path: read, checked, and copied into the
engine, its pages in memory or dropped before; switches to adapters that some session of the process had before; the
first token after a prompt of 128 tokens, without an adapter, under one, and with a switch to it before; one token at
position 128, without and with one. The bundle may be of random weights (edgec export CONFIG --random-weights).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import TYPE_CHECKING

from benchmarks.harness.results import Spread
from benchmarks.harness.rounds import spread
from edgec.page_cache import drop_pages

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle
    from edgec.runtime_py.adapters.adapter_file import Adapter
    from edgec.runtime_py.sessions.session import Session

TOKENS, REPEATS, SWITCHES = 128, 7, 50


@dataclass(frozen=True)
class AdapterCosts:
    """What one rank costs; all times are in milliseconds.

    Attributes:
        rank: of each change; modules: how many matrices are changed; file_bytes: of one adapter.
        read_ms: the file alone, in the system's memory.
        first_switch_ms: ``session.adapter = PATH`` where no session has it; the file is in the system's memory.
        first_switch_cpu_ms: processor time of that, all threads, which other work on the machine disturbs less.
        first_switch_from_disk_ms: the same after the system was told to forget the file's pages.
        switch_ms: to an adapter that some session of the process had before.
        first_token_ms: a prompt of ``TOKENS`` tokens without an adapter; with one; with a switch to it before.
        token_ms: one token after as many, without an adapter; with one.
    """

    rank: int
    modules: int
    file_bytes: int
    read_ms: Spread
    first_switch_ms: Spread
    first_switch_cpu_ms: Spread
    first_switch_from_disk_ms: Spread
    switch_ms: Spread
    first_token_ms: Spread
    adapted_first_token_ms: Spread
    switched_first_token_ms: Spread
    token_ms: Spread
    adapted_token_ms: Spread


def random_adapter(bundle: Bundle, rank: int, seed: int, deviation: float = 0.02) -> Adapter:
    """An adapter of float16 numbers with such a standard deviation on every matrix but the lm_head."""
    import numpy as np

    from edgec.bundle.adapter_targets import targets_of
    from edgec.bundle.tensor_file import FloatTensor
    from edgec.runtime_py.adapters.adapter_file import AdapterModule, adapter
    from edgec.runtime_py.engines.open_artifact import artifact_digest

    random = np.random.default_rng(seed)

    def matrix(*shape: int) -> FloatTensor:
        values = (random.standard_normal(shape) * deviation).astype(np.float16)
        return FloatTensor("F16", shape, memoryview(values.tobytes()))

    targets = [target for target in targets_of(bundle).targets if target.name != "lm_head"]
    modules = [AdapterModule(name=t.name, key=t.key, rank=rank, alpha=rank, scale=1.0) for t in targets]
    changes = [(m, matrix(rank, t.width), matrix(t.rows, rank)) for m, t in zip(modules, targets, strict=True)]
    return adapter(artifact_digest(bundle), "", changes)


def measure(session: Session, rank: int, repeats: int = REPEATS) -> AdapterCosts:
    """Measure one loaded bundle."""
    from edgec.runtime_py.adapters.adapter_file import read_adapter, write_adapter

    with TemporaryDirectory() as folder:
        paths = [Path(folder, str(seed)) for seed in range(2)]
        sizes = [write_adapter(random_adapter(session.bundle, rank, seed), path) for seed, path in enumerate(paths)]
        read = [_milliseconds(partial(read_adapter, paths[0])) for _ in range(repeats)]
        warm, cpu = zip(*(_first_switch(session, path) for _ in range(repeats) for path in paths), strict=True)
        cold = [_first_switch(session, path, forget=True)[0] for _ in range(repeats) for path in paths]
        first, second = map(read_adapter, paths)
    switches = _switches(session, first, second)
    times = [spread(each) for each in (read, warm, cpu, cold, switches, *_calls(session, first, second, repeats))]
    return AdapterCosts(rank, len(first.modules), sizes[0], *times)


def _first_switch(session: Session, path: Path, forget: bool = False) -> tuple[float, float]:
    """Wall and processor time of the switch to an adapter of which neither session nor engine holds a copy."""
    session.adapter = None
    if forget:
        drop_pages(path)
    before = process_time()
    wall = _milliseconds(lambda: setattr(session, "adapter", path))
    return wall, (process_time() - before) * 1e3


def _switches(session: Session, first: Adapter, second: Adapter) -> list[float]:
    """Switches there and back, of two adapters that the engine holds."""
    both = [partial(setattr, session, "adapter", one) for one in (first, second)]
    for switch in both:
        switch()
    return [_milliseconds(switch) for _ in range(SWITCHES) for switch in both]


def _calls(session: Session, first: Adapter, second: Adapter, repeats: int) -> tuple[list[float], ...]:
    """First tokens without, with, and after a switch to an adapter, in turns; then single tokens without and with."""
    tokens = [index % 97 + 3 for index in range(min(TOKENS, session.limits.context - 1))]
    prompt = partial(session.prefill, tokens, 0)

    def switched() -> None:
        session.adapter = first
        prompt()

    firsts: tuple[list[float], ...] = ([], [], [])
    for _ in range(repeats + 1):
        session.adapter = None
        firsts[0].append(_milliseconds(prompt))
        session.adapter = second
        firsts[1].append(_milliseconds(prompt))
        firsts[2].append(_milliseconds(switched))
    kept = [times[1:] for times in firsts]  # The first round touches memory for the first time.
    return (*kept, *(_single_tokens(session, one, tokens, repeats) for one in (None, first)))


def _single_tokens(session: Session, adapter: Adapter | None, tokens: list[int], repeats: int) -> list[float]:
    session.adapter = adapter
    session.prefill(tokens, 0)
    return [_milliseconds(lambda: session.forward([5], len(tokens), [0])) for _ in range(5 * repeats)]


def _milliseconds(work: Callable[[], object]) -> float:
    before = perf_counter()
    work()
    return (perf_counter() - before) * 1e3


def line(row: AdapterCosts) -> str:
    """The costs as text: medians, with the fastest and the slowest."""
    times = {name: value for name, value in vars(row).items() if isinstance(value, Spread)}
    told = [f"{name} {one.median:,.3f} ({one.low:,.3f} to {one.high:,.3f})" for name, one in times.items()]
    return f"rank {row.rank}  modules {row.modules}  file_bytes {row.file_bytes:,}\n  " + "\n  ".join(told)


def main(write: Callable[[str], None] = print) -> None:
    """Load, measure, print."""
    from edgec.runtime_py.sessions.session import Session

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--rank", type=int, action="append", help="repeatable; default: 8 and 64")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    session = Session(options.bundle, threads=options.threads)
    rows = [measure(session, rank) for rank in options.rank or (8, 64)]
    if options.json:
        told = [{name: _plain(value) for name, value in vars(row).items()} for row in rows]
        write(json.dumps({"obtained": "measured", "threads": options.threads, "rows": told}))
        return
    for row in rows:
        write(line(row))


def _plain(value: object) -> object:
    return value.model_dump() if isinstance(value, Spread) else value


if __name__ == "__main__":
    main()
