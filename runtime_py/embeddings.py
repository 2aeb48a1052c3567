"""Vectors of texts, from a sentence encoder's bundle."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.bundle.encoding import token_ids
from edgec.errors import InputError
from edgec.quiet import quiet
from edgec.runtime_py.arguments import check_ids
from edgec.runtime_py.engines.executor import Array
from edgec.runtime_py.function import Function
from edgec.runtime_py.tokenized import Tokenized

_OUTPUT, _TOKENS, _MASK = "sentence_embedding", "input_ids", "attention_mask"


class Embedding(Tokenized):
    """A model that may make one vector of a text."""

    _loaded: object

    @quiet()
    def embed(self, texts: str | Sequence[str | Sequence[int]], *, truncate: bool = False) -> Array:
        """Make one vector of each text; all are read before the first is computed.

        Args:
            texts: one text or several; each may be given as its token ids, special ones included.
            truncate: leave out what follows the most tokens that the model reads, as sentence-transformers does,
                instead of refusing the text.

        Returns:
            float32 [D] for one text, else [N, D]; of length 1 where the model's authors normalise.

        Raises:
            InputError: E642, the bundle is not a sentence encoder's; E643, a text is too long or has no tokens; E152,
                it is not valid Unicode, or an id is not in the vocabulary; E158, the tokenizer is absent.
        """
        function = self._encoder()
        read = [self._read(function, text, truncate) for text in ([texts] if isinstance(texts, str) else texts)]
        padding = int(getattr(self.tokenizer, "pad_token_id", None) or 0)
        vectors = [_vector(function, tokens, padding) for tokens in read]
        if isinstance(texts, str):
            return vectors[0]
        return np.stack(vectors) if vectors else np.zeros((0, self.vector_width), np.float32)

    def embedded_tokens(self, text: str | Sequence[int], *, truncate: bool = False) -> int:
        """How many tokens of a text are read, special ones included. Raises E152, E158, E642 and E643."""
        return len(self._read(self._encoder(), text, truncate))

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

    def _read(self, function: Function, text: str | Sequence[int], truncate: bool) -> list[int]:
        most = function.info.largest(function.info.inputs[0])[1]
        if isinstance(text, str):
            tokens = token_ids(self.tokenizer, text, enough=most, most=most if truncate else None)
        else:
            tokens = self._checked(text)[: most if truncate else None]
        if 0 < len(tokens) <= most:
            return tokens
        what, why, fix = (
            (f"A text has more than {most} tokens.", "the rest would not count", "split it, or cut it with truncate")
            if tokens
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


def _vector(function: Function, tokens: Sequence[int], padding: int) -> Array:
    """The vector of one text; where the shapes are fixed, it is padded on the right."""
    width = function.info.inputs[0].shape[1]
    length = width if isinstance(width, int) else len(tokens)
    spare = length - len(tokens)
    values = {_TOKENS: [*tokens, *[padding] * spare], _MASK: [1] * len(tokens) + [0] * spare}
    dtypes = {each.name: each.dtype for each in function.info.inputs}
    made = function.run(**{name: np.array([row], dtypes[name]) for name, row in values.items()})
    return np.asarray(made[_OUTPUT][0], np.float32)
