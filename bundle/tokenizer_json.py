"""Read the part of a tokenizer.json that edgec itself needs: all tokens with their ids."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field

from edgec.bundle.limited_json import JsonKind, read_model
from edgec.bundle.part import TokenId

KIND = JsonKind(
    "The bundle's tokenizer.json cannot be used.",
    "copy the bundle again, or export the model again from a folder with a working tokenizer",
    "E158",
    max_bytes=512 << 20,
)


class AddedToken(BaseModel):
    """A token outside the model's own vocabulary."""

    content: str
    id: TokenId


class _Model(BaseModel):
    """The vocabulary: a map from BPE and WordPiece, a list of pieces with their scores from Unigram."""

    vocab: dict[str, TokenId] | list[tuple[str, float]] = Field(default={})


class TokenizerJson(BaseModel):
    """The parts of the file that say which id stands for which text."""

    model: _Model = Field(default=_Model())
    added_tokens: list[AddedToken] = Field(default=[])

    @property
    def ids(self) -> dict[str, int]:
        """Every token's id."""
        own = self.model.vocab
        listed = own if isinstance(own, dict) else {piece: index for index, (piece, _) in enumerate(own)}
        return listed | {token.content: token.id for token in self.added_tokens}


def read_tokenizer_json(path: Path, kind: JsonKind = KIND) -> TokenizerJson:
    """Read a tokenizer.json.

    Raises:
        InputError: E158 or the kind's, it is not JSON within the limits, or not of that form.
    """
    return read_model(path, TokenizerJson, kind)
