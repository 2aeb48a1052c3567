"""``python -m``: the process that others are forked from. It has one thread and computes nothing that was asked for.

Its standard input is a socket. The first message is the vocabulary, or none; when it is read, a zero comes back. Then
come orders of five bytes: ``f`` with a socket beside it, to fork a process that serves there, or ``e`` and a process's
number, to end it. The answer is a number: the process's, or the status that it ended with. Processes are waited for
only then, so that no number is given to another one before.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from edgec.runtime_py.structured.closing import Closer
from edgec.runtime_py.structured.engine import GrammarEngine, library
from edgec.runtime_py.structured.vocabulary import Vocabulary
from edgec.runtime_py.structured.worker.frames import ANSWER, FORK, ORDER, MessageSocket
from edgec.runtime_py.structured.worker.limits import STACK_BYTES, limit_process
from edgec.runtime_py.structured.worker.service import Service


def main() -> None:
    """Fork and end processes until the other side ends."""
    control = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    message, _ = MessageSocket(control).receive()
    service = _service(message)
    gc.collect()
    gc.freeze()  # the collector leaves alone, and so shared, what every fork has
    children = set[int]()
    with suppress(OSError):
        control.sendall(ANSWER.pack(0))
        while True:
            order, descriptors, _, _ = socket.recv_fds(control, ORDER.size, 1)
            if len(order) < ORDER.size:
                break
            kind, child = ORDER.unpack(order)
            if kind == FORK:
                child = answer = _forked(service, control, descriptors[0])
                children.add(child)
            else:
                answer = _ended(child)
                children.discard(child)
            control.sendall(ANSWER.pack(answer))
    for child in children:
        _ended(child)


def _service(message: Mapping[str, Any]) -> Service:
    library()
    if "tokens" not in message:
        return Service(None, None)
    tokens = tuple(token.encode("latin-1") for token in message["tokens"])
    vocabulary = Vocabulary(tokens, frozenset(message["special"]), frozenset(message["eos"]))
    return Service(GrammarEngine(vocabulary), Closer(vocabulary))


def _forked(service: Service, control: socket.socket, descriptor: int) -> int:
    child = os.fork()
    if child == 0:
        try:
            control.close()
            _serve(service, MessageSocket(socket.socket(fileno=descriptor)))
        finally:
            os._exit(0)
    os.close(descriptor)
    return child


def _serve(service: Service, channel: MessageSocket) -> None:
    """Serve in a thread, since the size of a thread's stack can be chosen."""
    limit_process()
    threading.stack_size(STACK_BYTES)
    thread = threading.Thread(target=service.run, args=(channel,))
    thread.start()
    thread.join()


def _ended(child: int) -> int:
    """End a process, if it has not ended by itself, and wait for it; how it ended."""
    os.kill(child, signal.SIGKILL)  # no other process has this number before it was waited for
    return os.waitpid(child, 0)[1]


if __name__ == "__main__":
    main()
