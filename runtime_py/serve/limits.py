"""What the server allows: sizes, times and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class ServeLimits:
    """Limits of the server.

    Attributes:
        body_bytes: the largest body of a request.
        upload_bytes: the same of one that may bring images or sounds.
        uploads: requests beyond ``body_bytes`` that are in memory at once.
        answer_seconds: the longest time for computing one answer, without the time it waits for its turn; also the
            longest until a request is prepared, with waiting: its text read, its structure compiled.
        prepare_seconds: the longest time for preparing one request, without waiting.
        waiting: requests of one bundle that may wait for their turn; also requests that may wait to be prepared.
        head_seconds: the longest time in which a request's head arrives.
        body_seconds: the longest time in which a body arrives.
        send_seconds: the longest time that a client may leave one piece unread.
        connections: open connections; where all of them wait for answers, the requests of further ones get 503.
        address_connections: the same for those of one address, except this machine's own.
        sessions: answers of one bundle that are written at once.
        memory_bytes: the most that the states of one bundle's sessions may take together; None: as many as there are.
        closing_seconds: how long answers go on once the server is told to stop.
        chunk_tokens: tokens of prompts that are read between two tokens of those that write.
    """

    body_bytes: int = 4 << 20
    upload_bytes: int = 25 << 20
    uploads: int = 8
    answer_seconds: float = 600.0
    prepare_seconds: float = 60.0
    waiting: int = 64
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    send_seconds: float = 60.0
    connections: int = 256
    address_connections: int = 128
    sessions: int = 4
    memory_bytes: int | None = None
    closing_seconds: float = 5.0
    chunk_tokens: int = 64


DEFAULT_LIMITS: Final = ServeLimits()
