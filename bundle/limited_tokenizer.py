"""Tokenizers that are run in a process of their own, under limits, because their parts are not known to be quick.

Most are known (`tokenizer_parts`) and run in this process. Others cost a tenth of a millisecond more for each text, and
the memory of a second copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

from edgec.bundle.limited_process import LimitedProcess
from edgec.bundle.limited_worker import MEMORY_BYTES
from edgec.errors import InputError

SECONDS: Final = 10
_OPEN_SECONDS: Final = 60
_SECONDS_PER_CHARACTER: Final = 2e-5
_SECONDS_PER_BYTE: Final = 2e-7
_BYTES: Final = 64 << 20
_BYTES_PER_CHARACTER: Final = 4096
_MEMORY_PER_BYTE: Final = 32
"""Memory that reading a tokenizer's file may take, for each byte of it."""
_WORKER: Final = "edgec.bundle.tokenizer_worker"
_WHAT: Final = "that runs tokenizers"


class LimitedTokenizer:
    """A tokenizer of the tokenizers library that reads and writes texts in a process of its own.

    All else is the library's object; what is changed there reaches the process before its next text.
    """

    def __init__(self, held: Any) -> None:
        """Run ``held`` under limits."""
        process, size = LimitedProcess(_WORKER, _WHAT), len(held.to_str())
        vars(self).update(_held=held, _process=process, _changed=False, _size=size)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        vars(self)["_changed"] |= name.startswith(("add_", "train"))
        return getattr(self._held, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._held, name, value)
        vars(self)["_changed"] |= name != "encode_special_tokens"  # which goes with every job

    def __deepcopy__(self, memo: dict[int, Any]) -> LimitedTokenizer:
        return LimitedTokenizer(deepcopy(self._held, memo))

    def encode_batch(
        self, inputs: Sequence[Any], is_pretokenized: bool = False, add_special_tokens: bool = True
    ) -> list[Any]:
        """Encode texts, as the library does.

        Raises:
            ValueError: the tokenizer fails on them.
            InputError: E661, it exceeds its limits.
        """
        from tokenizers import Encoding

        size = len(str(inputs))
        job = {"encode": list(inputs), "special": add_special_tokens, "split": is_pretokenized}
        made = self._asked(job | {"bytes": _BYTES + _BYTES_PER_CHARACTER * size}, size)
        encodings = [Encoding() for _ in made]
        for encoding, text in zip(encodings, made, strict=True):
            encoding.__setstate__(text.encode())
        return encodings

    def encode(
        self, sequence: Any, pair: Any = None, is_pretokenized: bool = False, add_special_tokens: bool = True
    ) -> Any:
        """Encode a text; raises as `encode_batch`."""
        one = sequence if pair is None else (sequence, pair)
        return self.encode_batch([one], is_pretokenized, add_special_tokens)[0]

    encode_batch_fast = encode_batch

    def decode_batch(self, sequences: Sequence[Sequence[int]], skip_special_tokens: bool = True) -> list[str]:
        """Decode tokens; raises as `encode_batch`."""
        rows = [[int(token) for token in row] for row in sequences]
        return [str(text) for text in self._asked({"decode": rows, "skip": skip_special_tokens}, len(str(rows)))]

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Decode tokens; raises as `encode_batch`."""
        return self.decode_batch([ids], skip_special_tokens)[0]

    def _asked(self, job: Mapping[str, Any], size: int) -> Any:
        held = self._held
        if self._changed:
            self._process.close()  # the next one is told the whole tokenizer again
            vars(self)["_changed"] = False
        state = {"plain": held.encode_special_tokens, "truncation": held.truncation, "padding": held.padding}
        reply = self._process.ask({**job, **state, **_limits(self._size, size)}, lambda: {"text": held.to_str()})
        return _made(reply, beyond_limits)


def try_file(file: Path) -> None:
    """Open a tokenizer.json in a process that may die of it.

    Raises:
        ValueError: it cannot be opened, or not within the limits.
        ToolError: E300, no process can be started for it.
    """
    _try({"file": str(file)}, file.stat().st_size)


def try_folder(folder: Path) -> None:
    """Open a tokenizer's folder as transformers does, in a process that may die of it; raises as `try_file`."""
    _try({"open": str(folder)}, sum(each.stat().st_size for each in folder.iterdir() if each.is_file()))


def _try(job: Mapping[str, Any], size: int) -> None:
    process = LimitedProcess(_WORKER, _WHAT)
    try:
        reply = process.ask({**job, **_limits(size, 0), "seconds": _OPEN_SECONDS + size * _SECONDS_PER_BYTE})
    finally:
        process.close()
    _made(reply, lambda why: ValueError(f"opening it exceeds the limits: {why}"))


def _limits(held: int, text: int) -> dict[str, float]:
    """Limits for a tokenizer of so many bytes and a text of so many characters."""
    seconds = SECONDS + held * _SECONDS_PER_BYTE + text * _SECONDS_PER_CHARACTER
    return {"seconds": seconds, "memory_bytes": MEMORY_BYTES + held * _MEMORY_PER_BYTE}


def _made(reply: Mapping[str, Any], beyond: Callable[[str], Exception]) -> Any:
    if "limit" in reply:
        raise beyond(reply["limit"])
    if "refused" in reply:
        raise ValueError(reply["refused"])
    return reply["made"]


def beyond_limits(why: str) -> InputError:
    """The error E661 for a tokenizer that takes too much for a text."""
    return InputError(
        "The tokenizer exceeds its limits.",
        where="tokenizer.json",
        why=why,
        fix="give a shorter text or token ids, or export the model with the tokenizer that its makers publish",
        code="E661",
    )
