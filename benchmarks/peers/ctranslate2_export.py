"""CTranslate2's own conversion of Whisper: float32, and 8 bits for each row of a matrix.

Runs in the peer's environment. A job has ``folder`` (config.json, model.safetensors), ``prompt`` (see `words`) and
``out`` (a folder, which gets the folders ``float`` and ``int8``).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctranslate2.converters import TransformersConverter  # type: ignore[import-not-found]

from benchmarks.harness.jobs import status_bytes

FORMS = {"float": None, "int8": "int8"}


@dataclass(frozen=True)
class MadeUpTokenizer:
    """A vocabulary as the converter asks a tokenizer for it: a model of random weights has none."""

    words: Sequence[str]
    additional_special_tokens: tuple[str, ...] = ()
    additional_special_tokens_ids: tuple[int, ...] = ()

    def get_vocab(self) -> dict[str, int]:
        """The words by their ids."""
        return {word: token for token, word in enumerate(self.words)}


def words(size: int, prompt: Sequence[int]) -> list[str]:
    """Made-up words, but for those that CTranslate2 looks for by name.

    Args:
        size: of the vocabulary.
        prompt: begins with the start of a transcript, whose predecessor ends the text, and ends with the token after
            which there are no timestamps.
    """
    named = [f"w{token}" for token in range(size)]
    start, last = prompt[0], prompt[-1]
    named[start - 1], named[start], named[last] = "<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>"
    return named


class _Converter(TransformersConverter):  # type: ignore[misc]
    def __init__(self, folder: Path, prompt: Sequence[int]) -> None:
        super().__init__(str(folder))
        size = json.loads((folder / "config.json").read_text())["vocab_size"]
        self._tokenizer = MadeUpTokenizer(words(size, prompt))

    def load_tokenizer(self, *_: Any, **__: Any) -> MadeUpTokenizer:
        return self._tokenizer


def export(folder: Path, prompt: Sequence[int], out: Path) -> None:
    """Convert the model in ``folder`` to both forms."""
    for form, quantization in FORMS.items():
        _Converter(folder, prompt).convert(str(out / form), quantization=quantization)


if __name__ == "__main__":
    job = json.load(sys.stdin)
    target = Path(job["out"])
    target.mkdir(parents=True)
    export(Path(job["folder"]), job["prompt"], target)
    size = sum(file.stat().st_size for file in target.rglob("*") if file.is_file())
    print("\n" + json.dumps({"file_bytes": size, "peak_bytes": status_bytes("VmHWM")}))
