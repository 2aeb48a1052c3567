"""The number of threads that compute in this process, set for every engine at once."""

from __future__ import annotations

import sys

from edgec.errors import InputError
from edgec.runtime_py.engines.choice import choose_engine
from edgec.runtime_py.engines.engine import set_pool_threads
from edgec.runtime_py.engines.executor import BY_METHODS, EngineName
from edgec.runtime_py.engines.executorch_binding import binding, captured_stderr, runtime

MAX_THREADS = 1024


def use_threads(engine: EngineName, threads: int | None) -> int:
    """Set the number of computing threads (None leaves it) and return it.

    Raises:
        InputError: E156, ``threads`` is below 1.
    """
    return _torch_threads(threads) if engine in BY_METHODS else set_threads(threads)


def set_threads(threads: int | None) -> int:
    """Set the size of the process-wide thread pool (None leaves it) and return the size in force.

    Torch's own pool, where torch is loaded, gets the same size, also when a method is loaded: the wheel's attention
    kernel runs on both, and where they differ its barrier spins (on 2 busy cores a prefill of 128 tokens took 15 ms
    with 1 and 1 threads, 10 s with 1 and 2). Methods of edgec's engine follow a new pool, which comes as soon as none
    of them runs; those loaded by ExecuTorch's binding refuse to run afterwards.

    Raises:
        InputError: E156, ``threads`` is below 1 or above 1024.
    """
    if threads is not None and not 1 <= threads <= MAX_THREADS:
        raise InputError(
            f"{threads} threads were asked for.", where="--threads", fix=f"give 1 to {MAX_THREADS}", code="E156"
        )
    with binding.turn:
        before, in_force = _pool_threads(None), _pool_threads(threads)
        binding.pools += before != in_force
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(in_force)
    return in_force


def _pool_threads(threads: int | None) -> int:
    if choose_engine(()) == "edgec":
        return set_pool_threads(threads)
    with captured_stderr():
        if threads is not None:
            runtime()._unsafe_reset_threadpool(threads)
        return int(runtime()._threadpool_get_thread_count())


def _torch_threads(threads: int | None) -> int:
    """Set torch's threads, which compute in simulators, and return how many there are."""
    import torch

    if threads is not None and threads < 1:
        raise InputError(f"{threads} threads were asked for.", where="--threads", fix="give 1 or more", code="E156")
    if threads is not None:
        torch.set_num_threads(threads)
    return torch.get_num_threads()
