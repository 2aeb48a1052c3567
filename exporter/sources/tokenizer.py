"""Load a model's tokenizer, and check it against the model's embedding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.bundle.golden_texts import TextVector
from edgec.bundle.panics import panics_as_errors
from edgec.bundle.tokenizer_folder import untrusted_tokenizer
from edgec.errors import EdgecError, InputError
from edgec.exporter.sources.files.model_folder import tokenizer_files


@dataclass(frozen=True)
class RoundTrips:
    """How many texts survive encoding and decoding; ``changed`` has the labels of the others."""

    texts: int
    changed: tuple[str, ...]

    def __str__(self) -> str:
        same = self.texts - len(self.changed)
        return f"{same} of {self.texts} test texts survive encode and decode" + (
            f"; changed: {', '.join(self.changed)}" if self.changed else ""
        )


def round_trips(vectors: Sequence[TextVector]) -> RoundTrips:
    """Count the test texts that survive encoding and decoding; a lossy tokenizer is not an error."""
    return RoundTrips(len(vectors), tuple(vector.label for vector in vectors if not vector.round_trip))


def check_tokenizer(tokenizer: Any, vocab_size: int, where: str) -> None:
    """Refuse a tokenizer that cannot belong to this model. A larger (padded) embedding is fine.

    Args:
        tokenizer: a transformers tokenizer.
        vocab_size: rows of the model's embedding.
        where: the model, for the message.

    Raises:
        InputError: E140.
    """
    fault = next(_faults(tokenizer, vocab_size), None)
    if fault is not None:
        raise InputError(
            "The tokenizer does not match the model.",
            where=where,
            why=fault,
            fix="use the tokenizer the model was trained with, or resize the embedding to the tokenizer first",
            code="E140",
        )


def _faults(tokenizer: Any, vocab_size: int) -> Iterator[str]:
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    if not vocabulary:
        yield "its vocabulary is empty"
        return
    token, highest = max(vocabulary.items(), key=lambda item: item[1])
    if highest >= vocab_size:
        yield f"it can produce id {highest} ({token!r}), and the embedding has {vocab_size} rows"
    for number in sorted(tokenizer.all_special_ids):
        if not 0 <= number < vocab_size:
            yield f"its special token {tokenizer.convert_ids_to_tokens(number)!r} has id {number}"


def load_tokenizer(folder: Path, *, trust_remote_code: bool = False) -> Any:
    """The transformers tokenizer of a model folder, read without the network.

    Args:
        folder: the model folder.
        trust_remote_code: run tokenizer code that comes with the model.

    Raises:
        InputError: E113, there is no tokenizer or its files cannot be read.
    """
    if not tokenizer_files(folder):
        raise _error("The model has no tokenizer.", folder, "none of the known tokenizer files was found")
    try:
        if not trust_remote_code:
            return untrusted_tokenizer(folder)
        from transformers import AutoTokenizer

        with panics_as_errors():
            return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=True)
    except EdgecError:
        raise
    except Exception as error:  # tokenizers and transformers raise bare Exceptions on damaged files.
        raise _error("The tokenizer cannot be read.", folder, " ".join(str(error).split())[:300]) from error


def _error(what: str, folder: Path, why: str) -> InputError:
    return InputError(
        what=what,
        where=str(folder),
        why=why,
        fix="Copy tokenizer.json and tokenizer_config.json of the same model into the folder.",
        code="E113",
    )
