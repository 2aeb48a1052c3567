"""CTranslate2's Whisper as a sense; runs in the peer's environment.

A job has ``artifact`` (a folder of `ctranslate2_export`), ``form`` (``float`` or ``int8``), ``threads`` and ``given``.
Its decoder cannot be called for one token, so that decoding is timed as a text of some more tokens than one, less a
text of one token.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import ctranslate2  # type: ignore[import-not-found]
import numpy as np

from benchmarks.senses_parts import inputs
from benchmarks.senses_parts.jobs import AGREEMENT_TOKENS, Arrays, Job, Sense, Work, serve


class _Speech:
    def __init__(self, job: Job) -> None:
        folder = str(Path(job["artifact"]) / job["form"])
        types = {"float": "float32", "int8": "int8_float32"}
        self._model = ctranslate2.models.Whisper(
            folder, "cpu", compute_type=types[job["form"]], intra_threads=job["threads"], inter_threads=1
        )
        self._given = job["given"]
        self._features = ctranslate2.StorageView.from_array(inputs.features(self._given))
        self._states: Any = None

    def encode(self) -> Any:
        """The encoder's states as the runtime holds them."""
        self._states = self._model.encode(self._features)
        return self._states

    def begin(self) -> Any:
        """Read the window and the prompt, and choose the first token."""
        self.encode()
        return self.write(1)

    def begun(self) -> None:
        """Read the window, unless that was done."""
        if self._states is None:
            self.encode()

    def write(self, count: int, logits: bool = False) -> Any:
        """A text of so many tokens after the prompt."""
        prompt, end = self._given["prompt"], self._given["end"]
        # It writes half of the longest text at most, and counts the prompt but for its last token.
        longest = max(2 * count, count + len(prompt) - 1)
        (made,) = self._model.generate(
            self._states,
            [prompt],
            beam_size=1,
            max_length=longest,
            return_logits_vocab=logits,
            suppress_blank=False,
            suppress_tokens=[end],
        )
        if len(made.sequences_ids[0]) != count:
            raise RuntimeError(f"{len(made.sequences_ids[0])} tokens were written instead of {count}")
        return made

    def outputs(self) -> Arrays:
        """States of the encoder, and logits by tokens."""
        states = np.array(self.encode(), np.float32)[0]
        made = self.write(AGREEMENT_TOKENS, logits=True)
        tokens = [*self._given["prompt"], *made.sequences_ids[0][:-1]]
        rows = [np.array(row, np.float32).reshape(-1) for row in made.logits[0]]
        return {"states": states, "tokens": np.array(tokens), "logits": np.stack(rows)}


def _speech(job: Job) -> Sense:
    opened = _Speech(job)
    longer = partial(opened.write, 1 + job["given"]["new_tokens"])
    works = {
        "encoder": Work(opened.encode),
        "to first token": Work(opened.begin),
        "decode": Work(longer, opened.begun, partial(opened.write, 1)),
    }
    return Sense(works, opened.outputs)


if __name__ == "__main__":
    serve({"speech": _speech})
