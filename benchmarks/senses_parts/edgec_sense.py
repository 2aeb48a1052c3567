"""edgec's bundles as senses, by the sessions that ``edgec.load`` uses.

A job has ``artifact`` (the bundle), ``threads``, ``sense`` and ``given``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

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

WORKER = "benchmarks.senses_parts.edgec_sense"


class _Speech:
    """A session of an encoder-decoder that reads features."""

    def __init__(self, job: Job) -> None:
        from edgec.runtime_py.encoder_decoder.session import EncoderDecoderSession

        self._given, self._features = job["given"], inputs.features(job["given"])
        self._session = EncoderDecoderSession(_bundle(job), job["threads"])
        self._first: Any = None

    @cached_property
    def _encoder(self) -> Any:
        """The encoder alone, over the weights that the session has loaded."""
        from edgec.runtime_py.engines.open_artifact import open_artifact

        return open_artifact(self._session.bundle, self._session.engine, "encode")

    def encode(self) -> Any:
        """The encoder's states, [T, C]."""
        return self._encoder.run([self._features])[0][0]

    def begin(self) -> Any:
        """Read the window and the prompt; the logits [V] of the first token."""
        prompt = self._given["prompt"]
        self._session.read(self._features)
        self._first = self._session.forward(prompt, 0, (len(prompt) - 1,))[0]
        return self._first

    def begun(self) -> None:
        """Begin, unless that was done."""
        if self._first is None:
            self.begin()

    def decode(self) -> None:
        """Write tokens after the prompt, the likeliest each."""
        first, end = len(self._given["prompt"]), self._given["end"]
        logits = self._first
        for place in range(first, first + self._given["new_tokens"]):
            logits = self._step(likeliest(logits, end), place)

    def _step(self, token: int, place: int) -> Any:
        return self._session.forward([token], place, (0,))[0]

    def outputs(self) -> Arrays:
        """States of the encoder, and logits by tokens."""
        tokens, rows = written_greedily(self.begin(), self._given, self._step, AGREEMENT_TOKENS)
        return {"states": self.encode(), "tokens": np.array(tokens), "logits": np.stack(rows)}


def _speech(job: Job) -> Sense:
    opened = _Speech(job)
    works = {
        "encoder": Work(opened.encode),
        "to first token": Work(opened.begin),
        "decode": Work(opened.decode, opened.begun),
    }
    return Sense(works, opened.outputs)


def _with_vision(job: Job) -> Sense:
    from edgec.runtime_py.vision_language.session import VisionLanguageSession

    given = job["given"]
    session, image = VisionLanguageSession(_bundle(job), job["threads"]), inputs.pixels(given)
    tokens = [int(token) for token in inputs.prompt(given)[0]]

    def answer() -> Any:
        session.look(tokens, image)
        return session.prefill(tokens, 0)

    works = {"image encoder": Work(lambda: session.encode_images(image)), "image to first token": Work(answer)}
    return Sense(works, lambda: {"rows": session.encode_images(image), "logits": answer()})


def _image(job: Job) -> Sense:
    from edgec.runtime_py.functions.function import Function

    function, image = Function(_bundle(job), job["threads"]), inputs.pixels(job["given"])

    def run() -> Any:
        (logits,) = function.run(pixel_values=image).values()
        return logits[0]

    return Sense({"image": Work(run)}, lambda: {"logits": run()})


def _sentence(job: Job) -> Sense:
    from edgec.runtime_py.functions.function import Function

    function, given = Function(_bundle(job), job["threads"]), job["given"]

    def embed(length: int) -> Any:
        tokens = inputs.text(given, length)
        return function.run(input_ids=tokens, attention_mask=np.ones_like(tokens))["sentence_embedding"][0]

    lengths = {f"{length} tokens": length for length in given["lengths"]}
    works = {name: Work(partial(embed, length)) for name, length in lengths.items()}
    return Sense(works, lambda: {name: embed(length) for name, length in lengths.items()})


def _bundle(job: Job) -> Any:
    from edgec.bundle.folder import open_bundle

    # Checksums are not part of a load, for any of the runtimes.
    return open_bundle(Path(job["artifact"]), check_files=False)


SENSES: Mapping[str, OpenSense] = {"speech": _speech, "seeing": _with_vision, "image": _image, "sentence": _sentence}


def _import_libraries(job: Job) -> None:
    """Load edgec's engine, and try the bundle once, as the first load on a machine does."""
    from edgec.runtime_py.engines.choice import engine_for
    from edgec.runtime_py.engines.trial import try_first

    bundle = _bundle(job)
    try_first(bundle, engine_for(bundle))


if __name__ == "__main__":
    serve(SENSES, _import_libraries)
