"""Where steps run: processes of this machine, or tasks of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, Protocol

from edgec.errors import InputError, ToolError
from edgec.exporter.sweep.step import Done, SweepStep, run_step


class Engine(Protocol):
    """Runs steps, several at once."""

    def run(self, steps: Sequence[SweepStep]) -> Iterator[Done]:
        """Each step's end, in the order they come."""


class PoolEngine:
    """Each step is a process of its own here; ``workers`` of them at once."""

    def __init__(self, workers: int) -> None:
        """``workers``: 1 or more."""
        self._workers = workers

    def run(self, steps: Sequence[SweepStep]) -> Iterator[Done]:
        """See ``Engine``. Threads only wait for the processes."""
        with ThreadPoolExecutor(self._workers) as pool:
            futures = [pool.submit(run_step, step) for step in steps]
            try:
                for future in as_completed(futures):
                    yield future.result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


class RayEngine:
    """Each step is a task of the Ray cluster that ``ray.init`` finds; its nodes must see the sweep's folder."""

    def __init__(self, workers: int) -> None:
        """Join the cluster of ``RAY_ADDRESS``, or start one on this machine.

        Raises:
            ToolError: E562, Ray is not installed, or the cluster cannot be joined.
        """
        try:
            import ray
        except ImportError as cause:
            fix = 'pip install "edgec[sweep]"'
            raise ToolError("Ray is not installed.", "--engine ray", str(cause), fix, "E562") from cause
        self._ray: Any = ray
        self._workers = workers
        if not ray.is_initialized():
            self._join()

    def _join(self) -> None:
        try:
            self._ray.init(log_to_driver=False, configure_logging=False)
        except Exception as cause:  # ConnectionError, ValueError, RuntimeError and Ray's own.
            why = f"{type(cause).__name__}: {cause}"[:400]
            fix = "correct RAY_ADDRESS (unset: one is started here), or use --engine pool"
            raise ToolError("The Ray cluster cannot be joined.", "--engine ray", why, fix, "E562") from cause

    def run(self, steps: Sequence[SweepStep]) -> Iterator[Done]:
        """See ``Engine``. A node that dies takes its task along: Ray runs it again elsewhere."""
        task = self._ray.remote(num_cpus=1, max_retries=1)(run_step)
        waiting, left = dict[Any, SweepStep](), list(steps)
        while left or waiting:
            while left and len(waiting) < self._workers:
                step = left.pop(0)
                waiting[task.remote(step)] = step
            ready, _ = self._ray.wait(list(waiting), num_returns=1)
            yield self._ended(ready[0], waiting.pop(ready[0]))

    def _ended(self, reference: Any, step: SweepStep) -> Done:
        try:
            done: Done = self._ray.get(reference)
        except Exception as cause:  # Ray raises what the node raised, and errors of its own.
            error = {
                "code": "E561",
                "what": "A task of the cluster failed.",
                "why": f"{type(cause).__name__}: {cause}"[:400],
            }
            return Done(step.key, {}, error)
        return done


ENGINES: Mapping[str, Callable[[int], Engine]] = {"pool": PoolEngine, "ray": RayEngine}


def engine_named(name: str, workers: int) -> Engine:
    """The engine of a name.

    Raises:
        InputError: E156, no such engine, or no worker.
        ToolError: E562.
    """
    if workers < 1:
        raise InputError(f"{workers} workers were asked for.", where="--workers", fix="give 1 or more", code="E156")
    if name not in ENGINES:
        raise InputError(f"There is no engine {name!r}.", "--engine", fix=f"use {' or '.join(ENGINES)}", code="E156")
    return ENGINES[name](workers)
