"""Requests to the generated Swift, and the Python runtime's answers with the same scripted model."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from edgec.bundle.entry_points import Limits
from edgec.runtime_py.decoding.forced_text import continuation_score
from edgec.runtime_py.decoding.sampling import Sampling, process_logits
from edgec.runtime_py.decoding.stepper import Logits, prefill_in_chunks
from edgec.runtime_py.decoding.stopping import StopText
from edgec.runtime_py.decoding.text_stream import TextStream
from edgec.runtime_py.generation.generate import GenerationRequest, generate

VOCABULARY = 512
END_OF_TEXT = 2
SYSTEM = "Be brief."
_ODD = [
    *"abcU:ser \n",
    "\r",
    "\r\n",
    "e",
    "\u0301",
    "\u00e9",
    "\U0001f1e9",
    "\U0001f1ea",
    "\u200d",
    "\U0001f468",
    "\u0600",
    "ß",
]
_BYTES = ["a", " ", "é", "👨‍👩‍👧", "ß", "\u0600", "界", "e\u0301", "\r\n", " x"]


def ids(text: str) -> list[int]:
    """The stand-in tokenizer's ids of a text."""
    return [1, *text.encode()]


def decode(tokens: Sequence[int]) -> str:
    """The stand-in tokenizer's text of ids, without special tokens."""
    return bytes(token for token in tokens if token > END_OF_TEXT).decode("utf-8", "replace")


def chat(*turns: tuple[str, str]) -> list[int]:
    """A conversation as the stand-in's template renders it."""
    return list(("".join(f"<{role}>{content}\n" for role, content in turns) + "<assistant>").encode())


# Behind these prompts the model says a text, byte by byte, and then the token that ends it.
TEXTS = {
    "plain": "Grüße 👨‍👩‍👧 und User: mehr",
    "lines": "a\r\nb",
    "flags": "x\U0001f1e9\U0001f1eay",
    "prepended": "\u0600é!",
}
SCRIPTS = [{"prompt": ids(name), "answer": [*text.encode(), END_OF_TEXT]} for name, text in TEXTS.items()]


def rule(tokens: Sequence[int]) -> int:
    """The token that the scripted model gives after these."""
    for script in SCRIPTS:
        prompt, answer = script["prompt"], script["answer"]
        index = len(tokens) - len(prompt)
        if 0 <= index < len(answer) and list(tokens[: len(prompt)]) == prompt:
            result: int = answer[index]
            return result
    last = len(tokens) - 1
    return (31 * tokens[last] + 7 * last + (tokens[last - 1] if last else 0)) % 96 + 32


@dataclass
class Scripted:
    """The scripted model for the Python runtime."""

    limits: Limits
    tokens: list[int] = field(default_factory=list)

    def forward(self, tokens: Sequence[int], start: int, rows: Sequence[int]) -> Logits:
        self.tokens[start:] = tokens
        logits = -np.float32(0.001) * np.arange(VOCABULARY, dtype=np.float32)
        logits[rule(self.tokens)] = 5
        return logits[None]

    def prefill(self, tokens: Sequence[int], start: int) -> Logits:
        return prefill_in_chunks(self, tokens, start)

    def reusable(self, tokens: Sequence[int]) -> int:
        return 0


_FINISH = {"eos": "endOfText", "stop": "stopText", "length": "length", "context": "context"}


def answer(request: dict[str, Any], limits: Limits) -> tuple[list[str], str]:
    """The pieces that the Python runtime shows, and why it stops."""
    prompt = request.get("tokens") or (
        chat(("system", SYSTEM), *request["chat"]) if "chat" in request else ids(request["text"])
    )
    sampling = Sampling(repetition_penalty=request.get("repetitionPenalty", 1.0))
    text = "tokens" not in request
    eos = frozenset({END_OF_TEXT}) if text else frozenset()
    asked = GenerationRequest(request.get("maxNewTokens"), sampling, tuple(request.get("stop", ())), eos)
    shown: list[str] = []
    generated = generate(Scripted(limits), prompt, asked, decode, show=shown.append)
    return shown if text else [str(token) for token in generated.tokens], _FINISH[generated.finish_reason]


def scores(request: dict[str, Any], limits: Limits) -> list[str]:
    """The scores of the Python runtime, in words."""
    told = []
    for text in request["continuations"]:
        logprob, greedy = continuation_score(Scripted(limits), ids(request["text"]), [*text.encode()])
        told.append(f"{text} {logprob:.5f} {len(text.encode())} {str(greedy).lower()}")
    return told


def stop_cases(count: int) -> list[dict[str, Any]]:
    """Random stop texts over pieces of letters that join into one character."""
    pick = random.Random(1)

    def text(least: int) -> str:
        return "".join(pick.choices(_ODD, k=pick.randint(least, 3)))

    return [
        {"stops": [text(1) for _ in range(pick.randint(1, 3))], "pieces": [text(0) for _ in range(pick.randint(1, 12))]}
        for _ in range(count)
    ]


def stopped(case: dict[str, Any]) -> list[str | None]:
    """The part of the pieces that is shown, and the stop text that was hit."""
    stop, shown = StopText(case["stops"]), ""
    for piece in case["pieces"]:
        if stop.hit is None:
            shown += stop.feed(piece)
    return [shown if stop.hit is not None else shown + stop.flush(), stop.hit]


def stream_cases(count: int) -> list[dict[str, Any]]:
    """Random text cut into tokens of one to three bytes; some end inside a character, some prompts too."""
    pick = random.Random(2)
    cases = []
    for index in range(count):
        text = "".join(pick.choices(_BYTES, k=12)).encode()
        text = text[: pick.randint(1, len(text))] if index % 5 == 0 else text
        ends = sorted({*range(len(text), 0, -3), *pick.choices(range(1, len(text) + 1), k=len(text) // 2)})
        parts = [list(text[start:end]) for start, end in pairwise([0, *ends])]
        cases.append({"parts": parts, "prompt": pick.randint(0, min(6, len(parts)))})
    return cases


def streamed(case: dict[str, Any]) -> list[str]:
    """The text that each token completes, and the text at the end."""

    def text(tokens: Sequence[int]) -> str:
        return bytes(byte for token in tokens for byte in case["parts"][token]).decode("utf-8", "replace").lstrip(" ")

    stream = TextStream(text, range(case["prompt"]))
    return [*map(stream.push, range(case["prompt"], len(case["parts"]))), stream.flush()]


def choice_cases(count: int) -> list[dict[str, Any]]:
    """Random logits without ties, since the order of equal ones is undefined."""
    rng, pick = np.random.default_rng(3), random.Random(3)
    return [
        {
            "logits": (rng.normal(size=300) * 3).astype(np.float32).tolist(),
            "seen": rng.integers(0, 300, 20).tolist(),
            "temperature": pick.choice([0.0, 0.5, 1.0, 1.75]),
            "topK": pick.choice([0, 1, 5, 40, 1000]),
            "topP": pick.choice([1.0, 0.875, 0.5, 0.0625]),
            "minP": pick.choice([0.0, 0.0625, 1.0]),
            "repetitionPenalty": pick.choice([1.0, 1.25, 0.75]),
        }
        for _ in range(count)
    ]


def kept(case: dict[str, Any]) -> list[int]:
    """The token that is chosen, or all tokens that may be drawn."""
    numbers = (case["temperature"], case["topK"], case["topP"], case["minP"], case["repetitionPenalty"])
    scores = process_logits(np.array(case["logits"], np.float32), case["seen"], Sampling(*numbers))
    return [int(scores.argmax())] if case["temperature"] == 0 else [int(i) for i in np.flatnonzero(np.isfinite(scores))]
