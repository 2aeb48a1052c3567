"""What an app must know of a sentence encoder: how long its texts are, and which tokens stay when one is cut."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.bundle.encoding import token_ids
from edgec.bundle.entry_points import MethodInfo
from edgec.bundle.folder import Bundle
from edgec.bundle.manifest import Manifest
from edgec.bundle.sentence_prompts import NO_PROMPTS, SentencePrompts
from edgec.bundle.tokenizer_folder import open_tokenizer
from edgec.errors import InputError

OUTPUT, TOKENS, MASK = "sentence_embedding", "input_ids", "attention_mask"
_INTEGERS = ("int32", "int64")
# Any of these gives a token in any vocabulary, apart from those that stand around every text.
_SAMPLES = ("the", "a", "0", "e", "。", ".")


@dataclass(frozen=True)
class EncoderFacts:
    """How a text becomes the input of a sentence encoder's artifact; its output is the text's vector.

    Attributes:
        most_tokens: of the longest text, those around it included.
        padded: the artifact takes that many tokens only, so shorter texts are padded on the right.
        padding: the token that fills them; the mask hides it.
        before: tokens that the tokenizer puts before every text.
        after: tokens that it puts after every text.
        cuts_beginning: a text that is too long loses its beginning, not its end.
        width: values of a vector.
        prompts: what goes before a text.
    """

    most_tokens: int
    padded: bool
    padding: int
    before: int
    after: int
    cuts_beginning: bool
    width: int
    prompts: SentencePrompts = NO_PROMPTS


def is_encoder(manifest: Manifest) -> bool:
    """Whether a bundle's one method makes a text's vector of its tokens and their mask."""
    if manifest.limits is not None or len(manifest.methods) != 1:
        return False
    method = manifest.methods[0]
    return (
        sorted(tensor.name for tensor in method.inputs) == sorted((TOKENS, MASK))
        and [tensor.name for tensor in method.outputs] == [OUTPUT]
        and all(tensor.dtype in _INTEGERS for tensor in method.inputs)
        and _sized(method)
    )


def _sized(method: MethodInfo) -> bool:
    """Whether it reads rows [1, T] of one length and gives a row [1, D]."""
    rows = [method.largest(tensor) for tensor in method.inputs]
    made = method.outputs[0].shape
    return rows[0] == rows[1] and len(rows[0]) == 2 and rows[0][0] == 1 and rows[0][1] > 0 and _is_row(made)


def _is_row(shape: list[int | str]) -> bool:
    return len(shape) == 2 and shape[0] == 1 and isinstance(shape[1], int)


def text_files(bundle: Bundle, turned: str = "text into tokens") -> tuple[Path, Path]:
    """The tokenizer's folder and the golden vectors of a bundle for an app that turns one into the other.

    Raises:
        InputError: E462, it has none.
    """
    if bundle.tokenizer_dir is None or bundle.golden_path is None:
        raise InputError(
            f"the bundle has no tokenizer, so an app cannot turn {turned}",
            where=str(bundle.path),
            why="the model was exported from a folder without one",
            fix="export it from a folder that holds tokenizer.json",
            code="E462",
        )
    return bundle.tokenizer_dir, bundle.golden_path


def encoder_facts(bundle: Bundle) -> EncoderFacts | None:
    """Read the facts from a bundle; None where it is not a sentence encoder's.

    Raises:
        InputError: E462 it has no tokenizer, E158 or E152 its tokenizer cannot be used, E741 the tokenizer does not put
            the same tokens around every text.
    """
    if not is_encoder(bundle.manifest):
        return None
    folder, _ = text_files(bundle)
    method, tokenizer = bundle.manifest.methods[0], open_tokenizer(folder)
    before, after = _around(tokenizer, str(folder))
    return EncoderFacts(
        most_tokens=method.largest(method.inputs[0])[1],
        padded=all(isinstance(size, int) for size in method.inputs[0].shape),
        padding=int(getattr(tokenizer, "pad_token_id", None) or 0),
        before=before,
        after=after,
        cuts_beginning=getattr(tokenizer, "truncation_side", "right") == "left",
        width=int(method.outputs[0].shape[1]),
        prompts=bundle.manifest.sentence_encoder or NO_PROMPTS,
    )


def _around(tokenizer: Any, where: str) -> tuple[int, int]:
    """How many tokens stand before and after every text."""
    for text in _SAMPLES:
        inner, whole = token_ids(tokenizer, text, special=False), token_ids(tokenizer, text)
        spare = len(whole) - len(inner)
        starts = [start for start in range(spare + 1) if whole[start : start + len(inner)] == inner]
        if inner and starts:
            return starts[0], spare - starts[0]
    raise InputError(
        "an app cannot cut this model's texts as its tokenizer does",
        where=where,
        why="the tokenizer does not put the same tokens around every text",
        fix="use the model on this machine (edgec run --embed), or export one with another tokenizer",
        code="E741",
    )
