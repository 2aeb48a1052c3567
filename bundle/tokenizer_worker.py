"""The process that opens and runs tokenizers for `edgec.bundle.limited_tokenizer`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgec.bundle.limited_worker import JobAnswer, answer_lines
from edgec.bundle.panics import panics_as_errors

_MAX_WHY = 300


class _Worker:
    """Holds one tokenizer of the tokenizers library."""

    def __init__(self) -> None:
        import tokenizers

        self._library = tokenizers
        self._held: Any = None

    def __call__(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Do a job: ``open`` a folder, take the tokenizer in a ``file`` or a ``text``, ``encode`` or ``decode``."""
        try:
            with panics_as_errors():
                return {"made": self._made(job)}
        except MemoryError:
            raise
        except Exception as error:  # tokenizers raises bare Exceptions, transformers all kinds
            return {"refused": " ".join(f"{type(error).__name__}: {error}".split())[:_MAX_WHY]}

    def _made(self, job: Mapping[str, Any]) -> Any:
        if "open" in job:
            from edgec.bundle.tokenizer_folder import read_tokenizer

            return read_tokenizer(Path(job["open"])) is not None
        if "file" in job:
            self._held = self._library.Tokenizer.from_file(job["file"])
            return True
        if "text" in job:
            self._held = self._library.Tokenizer.from_str(job["text"])
        self._set(job)
        if "encode" in job:
            return self._encoded(job["encode"], job)
        return self._held.decode_batch(job["decode"], skip_special_tokens=job["skip"])

    def _set(self, job: Mapping[str, Any]) -> None:
        """Set what transformers sets before each call."""
        self._held.encode_special_tokens = job["plain"]
        if job["truncation"] is None:
            self._held.no_truncation()
        else:
            self._held.enable_truncation(**job["truncation"])
        if job["padding"] is None:
            self._held.no_padding()
        else:
            self._held.enable_padding(**job["padding"])

    def _encoded(self, inputs: Sequence[Any], job: Mapping[str, Any]) -> list[str]:
        """Encodings as the library writes them down."""
        rows = [tuple(one) if isinstance(one, list) and not job["split"] else one for one in inputs]
        made = self._held.encode_batch(rows, add_special_tokens=job["special"], is_pretokenized=job["split"])
        texts = [one.__getstate__().decode() for one in made]
        if (size := sum(map(len, texts))) > job["bytes"]:
            raise ValueError(f"it wrote {size:,} bytes, allowed are {job['bytes']:,}")
        return texts


def _answer() -> JobAnswer:
    return _Worker()


if __name__ == "__main__":
    answer_lines(_answer)
