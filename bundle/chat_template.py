"""Conversations as text, by a chat template that came from outside.

Templates are rendered by transformers' own renderer in a process that is started once and kept (about 60 MB), under
limits of processor time, memory and output: `chat_template_worker` says why. One text costs it a fraction of a
millisecond; starting it takes as long as importing that renderer, and happens while the tokenizer is being read.
"""

from __future__ import annotations

import atexit
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any

from pydantic import ConfigDict, JsonValue, TypeAdapter, ValidationError

from edgec.bundle.limited_json import first_fault
from edgec.bundle.template_messages import as_taken
from edgec.errors import InputError, ToolError

SECONDS = 5
_START_S, _WALL_S = 120.0, 60.0
_CHARACTERS, _GROWTH = 1 << 20, 8
_PIECE = 1 << 16
Message = dict[str, Any]
"""One turn of a chat: ``role`` and ``content``, of an assistant that calls tools also ``tool_calls``."""

_CALLS = "tool_calls"
_MESSAGES = TypeAdapter(list[dict[str, str | list[dict[str, JsonValue]]]], config=ConfigDict(strict=True))


def render_messages(
    tokenizer: Any,
    messages: Sequence[Mapping[str, Any]],
    answer: bool = True,
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    options: Mapping[str, Any] | None = None,
    clock: str | None = None,
) -> str:
    """A conversation as the tokenizer's chat template writes it.

    Args:
        tokenizer: of transformers, with a chat template.
        messages: ``{"role": ..., "content": ...}`` each, at least one.
        answer: end where the assistant's answer begins; without it, the conversation alone.
        tools: what the model may call, in OpenAI's form.
        options: further variables of the template, such as ``enable_thinking``.
        clock: the time that the template reads, as ``2026-01-31T12:00:00``; MARKS, to have each of its dates as a mark
            around its format; None for now.

    Raises:
        InputError: E154, the template refuses them; E159, it exceeds its limits.
        ToolError: E300, no process can be started for it.
    """
    return _rendered(tokenizer, _given(messages), tools, options, answer=answer, clock=clock)


def render_parts(
    tokenizer: Any,
    messages: Sequence[Mapping[str, Any]],
    answer: bool = True,
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    options: Mapping[str, Any] | None = None,
    clock: str | None = None,
) -> str:
    """A conversation whose contents are lists of parts, as vision-language models take it.

    Args:
        tokenizer: of transformers, with a chat template.
        messages: ``{"role": ..., "content": [{"type": "image"}, {"type": "text", "text": ...}]}`` each.
        answer: as for ``render_messages``, and so the others.
        tools: what the model may call.
        options: further variables of the template.
        clock: likewise.

    Raises:
        InputError: E154, E159, and ToolError: E300, as ``render_messages``.
    """
    return _rendered(tokenizer, messages, tools, options, answer=answer, clock=clock)


def _rendered(
    tokenizer: Any,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] = (),
    options: Mapping[str, Any] | None = None,
    *,
    answer: bool = True,
    clock: str | None = None,
) -> str:
    """Messages by the worker, whose output may grow with them."""
    try:
        template = tokenizer.get_chat_template(tools=list(tools) or None)
    except ValueError as cause:
        raise _refused(str(cause)) from cause
    job = {
        "template": template,
        "messages": as_taken(template, messages),
        "variables": {**tokenizer.special_tokens_map, **(options or {})},
        "tools": list(tools) or None,
        "answer": answer,
        "clock": clock,
    }
    size = len(json.dumps((messages, job["tools"]), default=str))
    reply = RENDERER.ask(job | {"characters": _CHARACTERS + _GROWTH * size, "seconds": SECONDS})
    if "limit" in reply:
        raise _beyond(reply["limit"])
    if "refused" in reply:
        raise _refused(reply["refused"])
    return reply["text"]


def check_messages(value: Any) -> list[Message]:
    """A conversation's messages: objects of texts, each with a role and a content; ``tool_calls`` is a list.

    Raises:
        ValueError: it is something else.
    """
    messages = _MESSAGES.validate_python(value)
    for number, message in enumerate(messages):
        if not {"role", "content"} <= message.keys():
            raise ValueError(f"message {number} has no role or no content")
        for name, held in message.items():
            if isinstance(held, str) is (name == _CALLS):
                raise ValueError(f"message {number} has {name} of another kind")
    return [dict(message) for message in messages]


def _given(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    try:
        return check_messages([dict(message) for message in messages])
    except (TypeError, ValueError) as cause:
        why = first_fault(cause) if isinstance(cause, ValidationError) else str(cause)
        what, fix = "The messages are not a conversation.", 'give {"role": "user", "content": "..."} for each'
        raise InputError(what, where="messages", why=why, fix=fix, code="E152") from cause


class Renderer:
    """Renders in a worker process; safe to use from several threads, which take turns, and after a fork."""

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.close)

    def _forget(self) -> None:
        """Begin without a worker: after a fork, neither the parent's lock nor its worker may be used."""
        self._turn = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._answered = False

    def start(self) -> None:
        """Start the worker unless it runs; it is ready some time later.

        Raises:
            ToolError: E300.
        """
        with self._turn:
            self._started()

    def ask(self, job: Mapping[str, Any]) -> Mapping[str, str]:
        """Render a conversation; the answer holds ``text``, or ``refused`` or ``limit`` with the reason.

        Raises:
            ToolError: E300.
        """
        with self._turn:
            process = self._started()
            try:
                return self._exchange(process, json.dumps(job, default=str).encode() + b"\n")
            except BaseException:  # an answer that nobody read would be taken for the next job's
                self._stop()
                raise

    def close(self) -> None:
        """End the worker."""
        self._stop()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._stop()
            try:
                self._process, self._answered = _worker(), False
            except (OSError, ValueError) as cause:
                raise _no_process(str(cause)) from cause
        return self._process

    def _exchange(self, process: subprocess.Popen[bytes], line: bytes) -> Mapping[str, str]:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(line)
            process.stdin.flush()
            said = _read_line(process.stdout.fileno(), _WALL_S if self._answered else _START_S)
        except BrokenPipeError:
            said = b""
        except TimeoutError:
            self._stop()
            return {"limit": "it gave no answer in time"}
        if said:
            self._answered = True
            return dict(json.loads(said))
        return self._ended(process)

    def _ended(self, process: subprocess.Popen[bytes]) -> Mapping[str, str]:
        """Why the worker ended: at the kernel's limit, or before it could render anything."""
        code = process.wait()
        self._stop()
        if code == -signal.SIGXCPU:
            return {"limit": f"it needed more than {SECONDS} s of processor time"}
        if code < 0:
            return {"limit": f"its process was ended by {signal.Signals(-code).name}"}
        raise _no_process(f"it ended with exit code {code}")

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):  # nobody needs any more what was to be written
                    pipe.close()  # type: ignore[union-attr]


def _worker() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "edgec.bundle.chat_template_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # away from the terminal's Ctrl-C, which is the caller's
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # its threads would only cost memory
    )


def _read_line(descriptor: int, seconds: float) -> bytes:
    """Read one line; empty where the other end closed. Raises TimeoutError."""
    deadline, pieces = time.monotonic() + seconds, [b""]
    with selectors.DefaultSelector() as waiting:
        waiting.register(descriptor, selectors.EVENT_READ)
        while not pieces[-1].endswith(b"\n"):
            if not waiting.select(max(0.0, deadline - time.monotonic())):
                raise TimeoutError
            pieces.append(os.read(descriptor, _PIECE))
            if not pieces[-1]:
                return b""
    return b"".join(pieces)


def _refused(why: str) -> InputError:
    return InputError(
        "The chat template refuses the messages.",
        where="tokenizer, chat_template",
        why=why,
        fix="use --raw for plain text, or other messages (some templates take no system message)",
        code="E154",
    )


def _beyond(why: str) -> InputError:
    return InputError(
        "The chat template exceeds its limits.",
        where="tokenizer, chat_template",
        why=why,
        fix="use --raw for plain text, or export the model with another chat template",
        code="E159",
    )


def _no_process(why: str) -> ToolError:
    return ToolError(
        "The process that renders chat templates cannot be used.",
        where=sys.executable or "python",
        why=why,
        fix="run 'edgec doctor'; edgec starts processes with the Python that runs it",
        code="E300",
    )


RENDERER = Renderer()
