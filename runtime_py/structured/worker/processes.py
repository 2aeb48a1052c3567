"""The caller's side: processes are forked when they are needed, asked, and ended when nobody needs them any more."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, Final

from edgec.errors import InputError
from edgec.memory_use import exceeds_memory
from edgec.runtime_py.structured.patience import require_wanted
from edgec.runtime_py.structured.refusals import no_process, too_much
from edgec.runtime_py.structured.vocabulary import Vocabulary
from edgec.runtime_py.structured.worker.frames import ANSWER, END, FORK, ORDER, TEXT, TICK_S, MessageSocket
from edgec.runtime_py.structured.worker.limits import (
    JOB_S,
    MEMORY_BYTES,
    START_S,
    TOO_MUCH_MEMORY,
    told_end,
)

_MODULE: Final = "edgec.runtime_py.structured.worker.main"


@dataclass(eq=False)
class _Parent:
    """A process that others are forked from.

    Attributes:
        control: orders go there, answers come back.
        heard: what has come of its word that it is ready.
        starter: the process that started it.
    """

    process: subprocess.Popen[bytes]
    control: socket.socket
    heard: bytearray = field(default_factory=bytearray)
    starter: int = field(default_factory=os.getpid)

    def await_ready(self, seconds: float) -> None:
        """Wait until it has read the vocabulary, for as long as the answer is wanted. Raises OSError."""
        end = time.monotonic() + seconds
        self.control.settimeout(TICK_S)
        while len(self.heard) < ANSWER.size:
            try:
                self._hear()
            except TimeoutError:
                require_wanted()
                if time.monotonic() > end:
                    raise

    def order(self, kind: bytes, child: int, descriptors: list[int]) -> int:
        """Its answer to an order; a wait that is interrupted ends it. Raises OSError."""
        self.control.settimeout(JOB_S)
        self.heard.clear()
        try:
            socket.send_fds(self.control, [ORDER.pack(kind, child)], descriptors)
            while len(self.heard) < ANSWER.size:
                self._hear()
        except BaseException:  # an answer that nobody read would be taken for the next order's
            self.close()
            raise
        return int(ANSWER.unpack(self.heard)[0])

    def _hear(self) -> None:
        part = self.control.recv(ANSWER.size - len(self.heard))
        if not part:
            raise ConnectionError("it has ended")
        self.heard += part

    def close(self) -> None:
        """End it; processes that it forked end when their own sockets are closed."""
        self.control.close()
        if os.getpid() == self.starter:
            self.process.kill()
            self.process.wait()


class Workers:
    """Processes that know one vocabulary, or none; safe to use from several threads, and after a fork."""

    def __init__(self, vocabulary: Vocabulary | None = None) -> None:
        """Start nothing yet."""
        self._vocabulary = vocabulary
        self.forget()
        _ALL.add(self)

    def forget(self) -> None:
        """Begin without processes: after a fork, neither the lock nor the processes of before may be used."""
        self._turn = Lock()
        self._parent: _Parent | None = None
        self._dropped: deque[tuple[_Parent, int]] = deque()

    def fork(self) -> Worker:
        """A new process.

        Raises:
            ToolError: E647, it cannot be started.
        """
        with taken(self._turn, require_wanted):
            try:
                return self._forked()
            except OSError:
                self._stop()
            try:  # once more: the process before may have been ended by anybody
                return self._forked()
            except OSError as cause:
                self._stop()
                raise no_process(str(cause)) from cause

    def _forked(self) -> Worker:
        parent = self._started()
        parent.await_ready(START_S)
        while self._dropped:
            owner, child = self._dropped.popleft()
            if owner is parent:
                parent.order(END, child, [])
        ours, theirs = socket.socketpair()
        try:
            child = parent.order(FORK, 0, [theirs.fileno()])
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return Worker(MessageSocket(ours), (parent, child), self)

    def _started(self) -> _Parent:
        if self._parent is not None and self._parent.process.poll() is None:
            return self._parent
        self._stop()
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", _MODULE],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # away from the terminal's Ctrl-C, which is the caller's
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # its threads could not be forked
            )
        self._parent = _Parent(process, ours)
        weakref.finalize(self, self._parent.close)
        try:
            MessageSocket(ours).send(_told(self._vocabulary), seconds=START_S)
        except BaseException:
            self._stop()
            raise
        return self._parent

    def _stop(self) -> None:
        parent, self._parent = self._parent, None
        if parent is not None:
            parent.close()

    def end(self, owner: _Parent, child: int) -> str:
        """End a process, if it has not ended by itself, and say why it ended."""
        with self._turn:
            try:
                if owner is not self._parent:
                    return "its process ended"
                return told_end(os.waitstatus_to_exitcode(owner.order(END, child, [])))
            except OSError:
                self._stop()
                return "its process ended"

    def drop(self, place: tuple[_Parent, int]) -> None:
        """Have a process, whose socket was closed, waited for at the next occasion; takes no lock."""
        self._dropped.append(place)


class Worker:
    """A forked process, for the process that forked it and its threads."""

    def __init__(self, channel: MessageSocket, place: tuple[_Parent, int], workers: Workers) -> None:
        """Ask on ``channel`` the process of some workers that stands at a place."""
        self._channel, self._place, self._workers = channel, place, workers
        self._turn, self._why = Lock(), ""
        self._finalizer = weakref.finalize(self, _let_go, channel, workers, place)

    @property
    def alive(self) -> bool:
        """Whether it can be asked: it has not ended, and belongs to this process."""
        return not self._why and self._place[0].starter == os.getpid()

    def ask(
        self, message: Mapping[str, Any], payload: bytes = b"", waiting: Callable[[], None] = require_wanted
    ) -> tuple[dict[str, Any], bytes]:
        """The answer to a message; threads take turns.

        Args:
            message: what is asked.
            payload: bytes that belong to it.
            waiting: called now and then; where it raises, the process is ended.

        Raises:
            InputError: what the answer refuses; E614, the process ended by its limits, now or before.
        """
        waiting()
        with taken(self._turn, waiting):
            answer, held = self._asked(message, payload, waiting)
        if "error" in answer:
            raise InputError(**answer["error"])
        if "fault" in answer:
            raise RuntimeError(answer["fault"])
        return answer, held

    def _asked(
        self, message: Mapping[str, Any], payload: bytes, waiting: Callable[[], None]
    ) -> tuple[dict[str, Any], bytes]:
        try:
            if not self.alive:
                raise ConnectionError
            self._channel.send(message, payload, JOB_S)
            return self._channel.receive(JOB_S, partial(self._look, waiting))
        except MemoryError as cause:
            self._end(TOO_MUCH_MEMORY)
            raise too_much(message.get("kind", TEXT), self._why) from cause
        except OSError as cause:
            self._end("it gave no answer in time" if isinstance(cause, TimeoutError) else "")
            raise too_much(message.get("kind", TEXT), self._why) from cause
        except BaseException:
            self._end("nobody waited for it any more")
            raise

    def _look(self, waiting: Callable[[], None]) -> None:
        if exceeds_memory(self._place[1], MEMORY_BYTES):
            raise MemoryError
        waiting()

    def close(self) -> None:
        """End the process."""
        with self._turn:
            self._end("it was ended")

    def _end(self, why: str) -> None:
        if self._finalizer.detach():
            self._channel.close()
            told = self._workers.end(*self._place)
            self._why = why or told


_ALL: Final[weakref.WeakSet[Workers]] = weakref.WeakSet()


@contextmanager
def taken(turn: Lock, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold a lock; ``waiting`` is called now and then until it is free."""
    while not turn.acquire(timeout=TICK_S):
        waiting()
    try:
        yield
    finally:
        turn.release()


def _told(vocabulary: Vocabulary | None) -> dict[str, Any]:
    if vocabulary is None:
        return {}
    tokens = [token.decode("latin-1") for token in vocabulary.tokens]
    return {"tokens": tokens, "special": sorted(vocabulary.special), "eos": sorted(vocabulary.eos)}


def _let_go(channel: MessageSocket, workers: Workers, place: tuple[_Parent, int]) -> None:
    channel.close()
    workers.drop(place)


def _forget_all() -> None:
    for workers in list(_ALL):
        workers.forget()


os.register_at_fork(after_in_child=_forget_all)
