"""A server in a thread of the tests' process, over models that say what a test tells them to."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai

import edgec
from edgec.runtime_py.adapters.adapter_file import Adapter
from edgec.runtime_py.model import Model
from edgec.runtime_py.serve.hosting import Served, hosted_of
from edgec.runtime_py.serve.limits import DEFAULT_LIMITS, ServeLimits
from edgec.runtime_py.serve.server import address_of, bound, server_of
from tests.runtime_py.messages.talk import said, tokenizer

# The tiny decoder's context is short: the tools themselves are not written out.
TEMPLATE = str(tokenizer("<tool_call> </tool_call> <think> </think>").chat_template).replace(
    "tools|tojson", "tools|length"
)
NAME = "tiny"
ASK: list[Any] = [{"role": "user", "content": "Hi"}]
LONG = "a b c d e f g h i j k l m n o p q r s t u v w x y z " * 2
NOW = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
CALL = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'


@dataclass(frozen=True)
class Running:
    """A server that answers.

    Attributes:
        url: of the API.
        hosted: the bundles that it serves.
    """

    url: str
    hosted: tuple[Served, ...]

    @property
    def place(self) -> tuple[str, int]:
        host, _, port = self.url.removeprefix("http://").removesuffix("/v1").partition(":")
        return host, int(port)

    @property
    def name(self) -> str:
        """Of the first bundle."""
        return self.hosted[0].name

    def client(self, **options: Any) -> openai.OpenAI:
        return openai.OpenAI(base_url=self.url, **{"api_key": "none", "max_retries": 0, "timeout": 60, **options})

    def sent(self, body: dict[str, Any]) -> socket.socket:
        """A connection on which a request for a chat was sent and nothing was read."""
        raw = json.dumps({"model": self.name, "messages": ASK, "temperature": 0, **body}).encode()
        client = socket.create_connection(self.place, 30)
        lines = ("POST /v1/chat/completions HTTP/1.1", "Host: localhost", "Content-Type: application/json")
        head = "\r\n".join([*lines, f"Content-Length: {len(raw)}", "", ""])
        client.sendall(head.encode() + raw)
        return client

    def post(self, path: str, body: bytes | Any, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        """What a plain HTTP client gets; of a stream the list of its events' data."""
        connection = http.client.HTTPConnection(*self.place, timeout=60)
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            connection.request("POST", path, raw, {"Content-Type": "application/json", **(headers or {})})
            answer = connection.getresponse()
            text = answer.read()
            if answer.headers.get_content_type() == "text/event-stream":
                return answer.status, _events(text.decode())
            return answer.status, json.loads(text) if text else None
        finally:
            connection.close()

    def settle(self, seconds: float = 20) -> None:
        """Wait until nothing is computed."""
        end = time.monotonic() + seconds
        while any(one.waiting for one in self.hosted):
            assert time.monotonic() < end, "an answer is still being computed"
            time.sleep(0.005)


def _events(text: str) -> list[Any]:
    """The data of each event; of the last one ``[DONE]`` or an error."""
    *events, end = text.split("\n\n")
    assert end == "" and all(one.startswith("data: ") for one in events)
    held = [one.removeprefix("data: ") for one in events]
    return [one if one == "[DONE]" else json.loads(one) for one in held]


@contextmanager
def running(
    *models: Model,
    limits: ServeLimits = DEFAULT_LIMITS,
    key: str | None = None,
    adapters: Mapping[str, Adapter] | None = None,
) -> Iterator[Running]:
    hosted: tuple[Served, ...] = tuple(hosted_of(model, limits, adapters) for model in models)
    with bound("127.0.0.1", 0) as listening:
        server = server_of(hosted, limits, key, local=True)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.005)
        try:
            yield Running(address_of(listening), hosted)
        finally:
            server.should_exit = True
            thread.join(30)
            for one in hosted:
                one.close()
            assert not thread.is_alive()


def model_of(bundle: Path, template: str = TEMPLATE) -> Model:
    """A bundle's model with a chat template that has tools and reasoning."""
    model = edgec.load(bundle)
    model.tokenizer.chat_template = template
    return model


def script(model: Model, *messages: str, wait: Callable[[], object] = lambda: None) -> list[int]:
    """Make a model say some texts, one after the other in a conversation; returns a list that grows with each call."""
    turns = [said(model.tokenizer, text) for text in messages]
    return _say(model, lambda asked, turn: turns[min(turn, len(turns)) - 1], wait)


def script_by(model: Model, text_after: Callable[[str], str]) -> list[int]:
    """Make a model say what a function gives for the text before each of its turns; returns as `script`."""
    tokens = model.tokenizer
    return _say(model, lambda asked, turn: said(tokens, text_after(tokens.decode(asked))), lambda: None)


def _say(model: Model, turn_after: Callable[[list[int], int], list[int]], wait: Callable[[], object]) -> list[int]:
    """Make a model say the tokens that a function gives for what came before a turn and the turn's number."""
    session, tokens = model.session, model.tokenizer
    begins, calls = tokens.convert_tokens_to_ids("<|assistant|>"), list[int]()
    forward = type(session).forward

    def scripted(fed: Sequence[int], start: int, rows: Sequence[int]) -> Any:
        wait()
        calls.append(len(fed))
        logits = forward(session, fed, start, rows).copy()
        for place, row in enumerate(rows):
            held = session.cache.tokens[: start + row + 1]
            turn = [index for index, token in enumerate(held) if token == begins]
            if turn:
                said_now = turn_after(held[: turn[-1]], len(turn))
                count = len(held) - turn[-1] - 1
                logits[place, said_now[count] if count < len(said_now) else tokens.eos_token_id] = 1e4
        return logits

    vars(session)["forward"] = scripted
    return calls


def unscripted(model: Model) -> None:
    model.session.__dict__.pop("forward", None)
