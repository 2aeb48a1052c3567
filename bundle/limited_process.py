"""A process that does what files from outside ask for, under limits of processor time, memory and output.

A file may be somebody's program: a chat template, the parts of a tokenizer. It may loop forever, take all memory or
abort, inside a single operation that Python cannot interrupt. So the kernel sets the limits (`limited_worker`), and
what ends by them is this process alone. It is started at its first use and kept.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Lock
from typing import Any, Final

from edgec.bundle.limited_worker import MEMORY_BYTES, too_much_memory
from edgec.errors import ToolError
from edgec.memory_use import exceeds_memory

_START_S: Final = 120.0
_WALL_FACTOR: Final = 12
_PIECE: Final = 1 << 16
_LOOK_S: Final = 0.1
_ALL: Final = weakref.WeakSet["LimitedProcess"]()


class LimitedProcess:
    """Asks a worker; safe to use from several threads, which take turns, and after a fork."""

    def __init__(self, module: str, what: str) -> None:
        """Ask ``module``, whose process is the one ``what``, in messages."""
        self._module, self._what = module, what
        self._running = list[subprocess.Popen[bytes]]()
        self.forget()
        _ALL.add(self)
        weakref.finalize(self, _end, self._running)  # also when Python ends

    def forget(self) -> None:
        """Begin without a worker: after a fork, neither the parent's lock nor its worker may be used."""
        self._turn, self._answered = Lock(), False
        self._running.clear()

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        """The worker, if there is one."""
        return self._running[0] if self._running else None

    @property
    def free(self) -> bool:
        """Whether nobody waits for an answer."""
        return not self._turn.locked()

    def start(self) -> None:
        """Start the worker unless it runs; it is ready some time later.

        Raises:
            ToolError: E300.
        """
        with self._turn:
            self._started()

    def ask(self, job: Mapping[str, Any], first: Callable[[], Mapping[str, Any]] = dict) -> Mapping[str, Any]:
        """Let the worker do a job.

        Args:
            job: as the worker takes it, with ``seconds`` of processor time, and ``memory_bytes`` where it needs more.
            first: what a worker that has answered nothing yet is told besides.

        Returns:
            What the worker says, or ``limit`` with the limit that ended it.

        Raises:
            ToolError: E300.
        """
        with self._turn:
            process = self._started()
            whole = job if self._answered else {**first(), **job}
            try:
                return self._exchange(process, whole)
            except BaseException:  # an answer that nobody read would be taken for the next job's
                self.close()
                raise

    def close(self) -> None:
        """End the worker."""
        _end(self._running)
        self._answered = False

    def _started(self) -> subprocess.Popen[bytes]:
        if self.process is None or self.process.poll() is not None:
            self.close()
            try:
                self._running.append(_worker(self._module))
            except (OSError, ValueError) as cause:
                raise self._no_process(str(cause)) from cause
        return self._running[0]

    def _exchange(self, process: subprocess.Popen[bytes], job: Mapping[str, Any]) -> Mapping[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        line, seconds = json.dumps(job, default=str).encode() + b"\n", job["seconds"]
        memory = job.get("memory_bytes", MEMORY_BYTES)
        patience = _WALL_FACTOR * seconds + (0.0 if self._answered else _START_S)
        try:
            process.stdin.write(line)
            process.stdin.flush()
            said = _read_line(process.stdout.fileno(), patience, lambda: exceeds_memory(process.pid, memory))
        except BrokenPipeError:
            said = b""
        except TimeoutError:
            self.close()
            return {"limit": "it gave no answer in time"}
        except MemoryError:
            self.close()
            return too_much_memory(memory)
        if said:
            self._answered = True
            return dict(json.loads(said))
        return self._ended(process, seconds)

    def _ended(self, process: subprocess.Popen[bytes], seconds: float) -> Mapping[str, str]:
        """Why the worker ended: at the kernel's limit, or before it could do anything."""
        code = process.wait()
        self.close()
        if code == -signal.SIGXCPU:
            return {"limit": f"it needed more than {seconds:g} s of processor time"}
        if code < 0:
            return {"limit": f"its process was ended by {signal.Signals(-code).name}"}
        raise self._no_process(f"it ended with exit code {code}")

    def _no_process(self, why: str) -> ToolError:
        return ToolError(
            f"The process {self._what} cannot be used.",
            where=sys.executable or "python",
            why=why,
            fix="run 'edgec doctor'; edgec starts processes with the Python that runs it",
            code="E300",
        )


def _forget_all() -> None:
    for one in list(_ALL):
        one.forget()


os.register_at_fork(after_in_child=_forget_all)


def _end(running: list[subprocess.Popen[bytes]]) -> None:
    while running:
        process = running.pop()
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):  # nobody needs any more what was to be written
                pipe.close()  # type: ignore[union-attr]


def _worker(module: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # away from the terminal's Ctrl-C, which is the caller's
        # Threads would only cost memory.
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
    )


def _read_line(descriptor: int, seconds: float, exceeds: Callable[[], bool]) -> bytes:
    """Read one line; empty where the other end closed. Raises TimeoutError; MemoryError, the other end takes more."""
    deadline, pieces = time.monotonic() + seconds, [b""]
    with selectors.DefaultSelector() as waiting:
        waiting.register(descriptor, selectors.EVENT_READ)
        while not pieces[-1].endswith(b"\n"):
            left = deadline - time.monotonic()
            if not waiting.select(max(0.0, min(left, _LOOK_S))):
                if exceeds():
                    raise MemoryError
                if left > 0:
                    continue
                raise TimeoutError
            pieces.append(os.read(descriptor, _PIECE))
            if not pieces[-1]:
                return b""
    return b"".join(pieces)
