"""ONNX Runtime's sessions as senses; runs in the peer's environment.

A job has ``artifact`` (a folder of `onnx_export`), ``form`` (``float`` or ``int8``), ``threads``, ``sense``, ``given``.
Keys and values stay in the runtime's own memory from call to call.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from benchmarks.senses_parts import inputs
from benchmarks.senses_parts.jobs import (
    AGREEMENT_TOKENS,
    Arrays,
    Job,
    OpenSense,
    Sense,
    Work,
    likeliest,
    serve,
    written_greedily,
)


def _session(job: Job, name: str) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = job["threads"], 1
    path = Path(job["artifact"]) / job["form"] / f"{name}.onnx"
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _value(array: Any) -> Any:
    return ort.OrtValue.ortvalue_from_numpy(array)


class _Speech:
    def __init__(self, job: Job) -> None:
        self._given, self._features = job["given"], inputs.features(job["given"])
        self._encoder, self._cross, self._decoder = (_session(job, name) for name in ("encoder", "cross", "decoder"))
        asked = {each.name: each.shape for each in self._decoder.get_inputs()}
        # Keys and values before the first token: none.
        self._empty = {
            name: _value(np.zeros((1, shape[1], 0, shape[3]), np.float32))
            for name, shape in asked.items()
            if name.startswith("past_")
        }
        self._past, self._memory, self._first = self._empty, dict[str, Any](), None
        self._begun: dict[str, Any] = {}

    def encode(self) -> Any:
        """The encoder's states as the runtime holds them."""
        return self._encoder.run_with_ort_values(["states"], {"features": _value(self._features)})[0]

    def begin(self) -> Any:
        """Read the window and the prompt; the logits [V] of the first token."""
        crossed = self._cross.run_with_ort_values(None, {"states": self.encode()})
        self._memory = {f"cross_{i}": value for i, value in enumerate(crossed)}
        self._past = self._empty
        self._first = self._step(self._given["prompt"])
        self._begun = self._past
        return self._first

    def begun(self) -> None:
        """Begin, unless that was done; go back to the first token."""
        if self._first is None:
            self.begin()
        self._past = self._begun

    def decode(self) -> None:
        """Write tokens after the prompt, the likeliest each."""
        logits: Any = self._first
        for _ in range(self._given["new_tokens"]):
            logits = self._step([likeliest(logits, self._given["end"])])

    def _step(self, tokens: list[int], _: int = 0) -> Any:
        given = {"tokens": _value(np.array([tokens], np.int64)), **self._past, **self._memory}
        logits, *present = self._decoder.run_with_ort_values(None, given)
        self._past = {f"past_{i}": value for i, value in enumerate(present)}
        return logits.numpy()[0, 0]

    def outputs(self) -> Arrays:
        """States of the encoder, and logits by tokens."""

        def step(token: int, place: int) -> Any:
            return self._step([token], place)

        tokens, rows = written_greedily(self.begin(), self._given, step, AGREEMENT_TOKENS)
        return {"states": self.encode().numpy()[0], "tokens": np.array(tokens), "logits": np.stack(rows)}


def _speech(job: Job) -> Sense:
    opened = _Speech(job)
    works = {
        "encoder": Work(opened.encode),
        "to first token": Work(opened.begin),
        "decode": Work(opened.decode, opened.begun),
    }
    return Sense(works, opened.outputs)


def _with_vision(job: Job) -> Sense:
    given, image = job["given"], inputs.pixels(job["given"])
    vision, decoder = _session(job, "vision_encoder"), _session(job, "decoder")
    tokens = inputs.prompt(given)
    seen = tokens == given["image_token"]

    def encode_images() -> Any:
        return vision.run(["rows"], {"pixels": image})[0]

    def answer() -> Any:
        rows = encode_images()
        features = np.zeros((1, tokens.shape[1], rows.shape[-1]), np.float32)
        features[seen] = rows
        read = {"tokens": tokens, "features": features, "seen": seen[..., None]}
        # With all keys and values, with which a text would go on.
        values = decoder.run_with_ort_values(None, {name: _value(array) for name, array in read.items()})
        return values[0].numpy()[0, 0]

    works = {"image encoder": Work(encode_images), "image to first token": Work(answer)}
    return Sense(works, lambda: {"rows": encode_images(), "logits": answer()})


def _image(job: Job) -> Sense:
    session, image = _session(job, "model"), inputs.pixels(job["given"])

    def run() -> Any:
        return session.run(None, {"pixels": image})[0][0]

    return Sense({"image": Work(run)}, lambda: {"logits": run()})


def _sentence(job: Job) -> Sense:
    session, given = _session(job, "model"), job["given"]

    def embed(length: int) -> Any:
        tokens = inputs.text(given, length)
        return session.run(None, {"tokens": tokens, "mask": np.ones_like(tokens)})[0][0]

    lengths = {f"{length} tokens": length for length in given["lengths"]}
    works = {name: Work(partial(embed, length)) for name, length in lengths.items()}
    return Sense(works, lambda: {name: embed(length) for name, length in lengths.items()})


SENSES: Mapping[str, OpenSense] = {"speech": _speech, "seeing": _with_vision, "image": _image, "sentence": _sentence}

if __name__ == "__main__":
    serve(SENSES)
