"""Where steps run: processes of this machine, or tasks of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, Protocol

from edgec.errors import InputError, ToolError
from edgec.exporter.sweep.step import Done, SweepStep, run_step
from edgec.installation import install_command


class SweepEngine(Protocol):
    """Something that runs steps, several at once."""

    def run(self, steps: Sequence[SweepStep]) -> Iterator[Done]:
        """Run steps; yields how each ended, in the order in which they end."""


class PoolEngine:
    """Runs each step in a process on this machine, ``workers`` of them at once."""

    def __init__(self, workers: int) -> None:
        """``workers``: how many steps run at once, 1 or more."""
        self._workers = workers

    def run(self, steps: Sequence[SweepStep]) -> Iterator[Done]:
        """Run steps as ``SweepEngine`` says; the threads only wait for the processes."""
        with ThreadPoolExecutor(self._workers) as pool:
            futures = [pool.submit(run_step, step) for step in steps]
            try:
                for future in as_completed(futures):
                    yield future.result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


class RayEngine:
    """Runs each step as a task of the Ray cluster that ``ray.init`` finds; all nodes must see the sweep's folder."""

    def __init__(self, workers: int) -> None:
        """Join the cluster of ``RAY_ADDRESS``, or start one on this machine.

        Raises:
            ToolError: E562, Ray is not installed, or the cluster cannot be joined.
        """
        try:
            import ray
        except ImportError as cause:
            fix = install_command("sweep")
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
        """Run steps as ``SweepEngine`` says; Ray repeats the task of a node that died on another one."""
        task = self._ray.remote(num_cpus=1, max_retries=1)(run_step)
        waiting, left = dict[Any, SweepStep](), list(steps)
        while left or waiting:
            while left and len(waiting) < self._workers:
                step = left.pop(0)
                waiting[task.remote(step)] = step
            ready, _ = self._ray.wait(list(waiting), num_returns=1)
            yield self._result(ready[0], waiting.pop(ready[0]))

    def _result(self, reference: Any, step: SweepStep) -> Done:
        try:
            done: Done = self._ray.get(reference)
        except Exception as cause:  # Ray raises what the node raised, and its own errors.
            error = {
                "code": "E561",
                "what": "A task of the cluster failed.",
                "why": f"{type(cause).__name__}: {cause}"[:400],
            }
            return Done(step.key, {}, error)
        return done


ENGINES: Mapping[str, Callable[[int], SweepEngine]] = {"pool": PoolEngine, "ray": RayEngine}


def engine_named(name: str, workers: int) -> SweepEngine:
    """The engine of a given name.

    Raises:
        InputError: E156, there is no such engine, or ``workers`` is below 1.
        ToolError: E562.
    """
    if workers < 1:
        raise InputError(f"{workers} workers were asked for.", where="--workers", fix="give 1 or more", code="E156")
    if name not in ENGINES:
        raise InputError(f"There is no engine {name!r}.", "--engine", fix=f"use {' or '.join(ENGINES)}", code="E156")
    return ENGINES[name](workers)
