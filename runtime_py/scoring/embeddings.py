"""Vectors of texts, from a sentence encoder's bundle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from edgec.bundle.encoding import token_ids
from edgec.bundle.sentence_prompts import NO_PROMPTS, READ_ONLY, SentencePrompts
from edgec.errors import InputError
from edgec.quiet import quiet
from edgec.runtime_py.answers.tokenized import Tokenized
from edgec.runtime_py.decoding.arguments import check_ids
from edgec.runtime_py.engines.executor import Array
from edgec.runtime_py.functions.function import Function

_OUTPUT, _TOKENS, _MASK = "sentence_embedding", "input_ids", "attention_mask"


class _ReadText(NamedTuple):
    """A text's token ids, and how many of the first belong to a prompt that is read and not pooled."""

    tokens: list[int]
    unpooled: int


class Embedding(Tokenized):
    """A model that may make one vector of a text."""

    _loaded: object

    @quiet()
    def embed(
        self,
        texts: str | Sequence[str | Sequence[int]],
        *,
        truncate: bool = False,
        prompt_name: str | None = None,
    ) -> Array:
        """Make one vector of each text; all are read before the first is computed.

        Args:
            texts: one text or several; each may be given as its token ids, special ones and those of a prompt included.
            truncate: leave out what follows the most tokens that the model reads, as sentence-transformers does,
                instead of refusing the text.
            prompt_name: which of ``prompts`` goes before each text; None: the authors' default, if they have one;
                empty: none.

        Returns:
            float32 [D] for one text, else [N, D]; of length 1 where the model's authors normalise.

        Raises:
            InputError: E642, the bundle is not a sentence encoder's; E643, a text is too long or has no tokens; E152,
                it is not valid Unicode, or an id is not in the vocabulary; E158, the tokenizer is absent; E126, no
                prompt has that name; E127, a prompt is named for token ids.
        """
        function, given = self._encoder(), [texts] if isinstance(texts, str) else texts
        read = [self._read(function, text, truncate, prompt_name) for text in given]
        padding = int(getattr(self.tokenizer, "pad_token_id", None) or 0)
        vectors = [_vector(function, text, padding) for text in read]
        if isinstance(texts, str):
            return vectors[0]
        return np.stack(vectors) if vectors else np.zeros((0, self.vector_width), np.float32)

    def embedded_tokens(
        self, text: str | Sequence[int], *, truncate: bool = False, prompt_name: str | None = None
    ) -> int:
        """How many tokens of a text are read, special ones and those of a prompt included. Raises as ``embed``."""
        return len(self._read(self._encoder(), text, truncate, prompt_name).tokens)

    @property
    def prompts(self) -> SentencePrompts:
        """What the authors of a sentence encoder put before a text, by name, and which of them is the default."""
        return self.bundle.manifest.sentence_encoder or NO_PROMPTS

    @property
    def vector_width(self) -> int:
        """How many values a vector has. Raises E642."""
        info = self._encoder().info
        return info.largest(info.outputs[0])[-1]

    @property
    def embeds(self) -> bool:
        """Whether it is a sentence encoder, for which there is ``embed``."""
        return isinstance(self._loaded, Function) and self._loaded.info.outputs[0].name == _OUTPUT

    def _encoder(self) -> Function:
        if self.embeds:
            assert isinstance(self._loaded, Function)
            return self._loaded
        raise InputError(
            "This model does not make vectors of texts.",
            where=str(self.bundle.path),
            why=f"it has no output {_OUTPUT!r}",
            fix="export a sentence encoder, whose folder has a modules.json (docs/embeddings.md)",
            code="E642",
        )

    def _read(
        self, function: Function, text: str | Sequence[int], truncate: bool, prompt_name: str | None
    ) -> _ReadText:
        most = function.info.largest(function.info.inputs[0])[1]
        before, unpooled = self.prompts.named(prompt_name)
        if isinstance(text, str):
            tokens = token_ids(self.tokenizer, before + text, enough=most, most=most if truncate else None)
        elif prompt_name and before:
            raise _prompt_of_ids(prompt_name)
        else:
            tokens, unpooled = self._checked(text)[: most if truncate else None], 0
        if unpooled < len(tokens) <= most:
            return _ReadText(tokens, unpooled)
        what, why, fix = (
            (f"A text has more than {most} tokens.", "the rest would not count", "split it, or cut it with truncate")
            if len(tokens) > most
            else ("A text has no tokens.", "nothing can be read", "give a text")
        )
        raise InputError(what, where=repr(text[:40]), why=why, fix=fix, code="E643")

    def _checked(self, ids: Sequence[int]) -> list[int]:
        tokens, known = check_ids(ids), len(self.tokenizer)
        if tokens and max(tokens) >= known:
            what, why = f"The token {max(tokens)} does not exist.", f"the tokenizer has {known}"
            where, fix = f"{len(tokens)} token ids", "give ids of this bundle's tokenizer"
            raise InputError(what, where=where, why=why, fix=fix, code="E152")
        return tokens


def _prompt_of_ids(name: str) -> InputError:
    return InputError(
        f"The prompt {name!r:.80} cannot go before token ids.",
        where="prompt_name",
        why="the tokens of a text depend on what stands before it",
        fix="give text, or the ids of prompt and text together",
        code="E127",
    )


def _vector(function: Function, text: _ReadText, padding: int) -> Array:
    """The vector of one text; where the shapes are fixed, it is padded on the right."""
    tokens, unpooled = text
    width = function.info.inputs[0].shape[1]
    length = width if isinstance(width, int) else len(tokens)
    spare = length - len(tokens)
    mask = [READ_ONLY] * unpooled + [1] * (len(tokens) - unpooled) + [0] * spare
    values = {_TOKENS: [*tokens, *[padding] * spare], _MASK: mask}
    dtypes = {each.name: each.dtype for each in function.info.inputs}
    made = function.run(**{name: np.array([row], dtypes[name]) for name, row in values.items()})
    return np.asarray(made[_OUTPUT][0], np.float32)
