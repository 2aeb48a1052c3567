"""What adapters cost while a bundle runs: python -m benchmarks.adapters BUNDLE [--rank N] [--threads N] [--json].

Two random adapters on every matrix of the bundle's layers. Measured, wall, medians: reading an adapter's file, giving
it to a session for the first time (it is copied into the engine; also the CPU time of all threads, which other work on
the machine disturbs less) and again, a prefill of 128 tokens and one token at position 128, without an adapter and with
one.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle
    from edgec.runtime_py.adapters.adapter_file import Adapter
    from edgec.runtime_py.sessions.session import Session

TOKENS, REPEATS, SWITCHES = 128, 7, 50


@dataclass(frozen=True)
class AdapterCosts:
    """All times are in milliseconds; ``first_switch_ms``: of an adapter that no session has had yet."""

    rank: int
    modules: int
    file_bytes: int
    read_ms: float
    first_switch_ms: float
    first_switch_cpu_ms: float
    switch_ms: float
    prefill_ms: float
    adapted_prefill_ms: float
    token_ms: float
    adapted_token_ms: float


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
        read_ms = median(_milliseconds(lambda: read_adapter(paths[0])) for _ in range(repeats))
        first, second = map(read_adapter, paths)

    session.adapter = None
    prefill_ms, token_ms = _calls(session, repeats)
    switch = [partial(setattr, session, "adapter", one) for one in (first, second)]
    before = process_time()
    first_ms = list(map(_milliseconds, switch))
    first_cpu_ms = (process_time() - before) * 1e3 / len(switch)
    switches = [_milliseconds(one) for _ in range(SWITCHES) for one in switch]
    adapted_prefill_ms, adapted_token_ms = _calls(session, repeats)
    calls = (prefill_ms, adapted_prefill_ms, token_ms, adapted_token_ms)
    times = (read_ms, median(first_ms), first_cpu_ms, median(switches), *calls)
    return AdapterCosts(rank, len(first.modules), sizes[0], *times)


def _milliseconds(work: Callable[[], object]) -> float:
    before = perf_counter()
    work()
    return (perf_counter() - before) * 1e3


def _calls(session: Session, repeats: int) -> tuple[float, float]:
    """A prefill of TOKENS tokens, and one token after them."""
    tokens = [index % 97 + 3 for index in range(TOKENS)]
    session.prefill(tokens, 0)
    prefills = [_milliseconds(lambda: session.prefill(tokens, 0)) for _ in range(repeats)]
    singles = [_milliseconds(lambda: session.forward([5], TOKENS, [0])) for _ in range(5 * repeats)]
    return median(prefills), median(singles)


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
        write(json.dumps({"obtained": "measured", "threads": options.threads, "rows": [asdict(row) for row in rows]}))
        return
    for row in rows:
        write("  ".join(f"{name} {value:,.3f}".removesuffix(".000") for name, value in asdict(row).items()))


if __name__ == "__main__":
    main()
