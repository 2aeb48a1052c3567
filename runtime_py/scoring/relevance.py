"""How well a document answers a query: by a cross-encoder, or by a decoder that is asked for yes or no.

A cross-encoder reads both texts at once and gives one value, of which the logistic function is the relevance, as in
sentence-transformers. A decoder is asked as Qwen3-Reranker is (its model card): the relevance is the probability of
``yes`` against that of ``no`` as its answer's first token.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from edgec.bundle.chat_template import Message
from edgec.bundle.encoding import PairIds, pair_ids, token_ids
from edgec.errors import InputError
from edgec.quiet import quiet
from edgec.runtime_py.answers.tokenized import Tokenized
from edgec.runtime_py.decoding.stepper import check_context
from edgec.runtime_py.functions.function import Function
from edgec.runtime_py.messages.message_format import ChatOptions

TASK: Final = "Given a web search query, retrieve relevant passages that answer the query"
_SYSTEM: Final = (
    "Judge whether the Document meets the requirements based on the Query and the Instruct provided. "
    'Note that the answer can only be "yes" or "no".'
)
_TOKENS, _MASK, _SECOND = "input_ids", "attention_mask", "token_type_ids"
_READ: Final = ({_TOKENS, _MASK}, {_TOKENS, _MASK, _SECOND})


@dataclass(frozen=True)
class Relevance:
    """How well a document answers a query.

    Attributes:
        score: 0 to 1.
        tokens: of query and document as they were read.
    """

    score: float
    tokens: int


class Reranking(Tokenized):
    """A model that may be a cross-encoder, or a decoder that answers yes or no."""

    _loaded: object

    @property
    def is_cross_encoder(self) -> bool:
        """Whether it gives one value for a pair of texts."""
        if not isinstance(self._loaded, Function) or self.bundle.tokenizer_dir is None:
            return False
        info = self._loaded.info
        one = len(info.outputs) == 1 and tuple(info.outputs[0].shape) == (1, 1)
        return one and {each.name for each in info.inputs} in _READ

    @quiet()
    def relevance(self, query: str, document: str) -> Relevance:
        """How well a document answers a query, by a cross-encoder.

        Raises:
            InputError: E897, it is another kind of model; E643, the texts are too long; E152, they are not valid
                Unicode; E158, the tokenizer cannot read them.
        """
        function = self._loaded
        if not self.is_cross_encoder or not isinstance(function, Function):
            raise no_ranking(str(self.bundle.path), "it does not give one value for a pair of texts")
        most = function.info.largest(function.info.inputs[0])[1]
        for text in (query, document):  # of a long text, the beginning says enough
            _check_length(token_ids(self.tokenizer, text, special=False, enough=most), most, text)
        pair = pair_ids(self.tokenizer, query, document)
        _check_length(pair.tokens, most, document)
        return Relevance(_logistic(_value(function, pair)), len(pair.tokens))

    def judgement_prompt(self, query: str, document: str, task: str = TASK) -> list[int]:
        """The tokens after which a decoder says whether a document answers a query.

        Raises:
            InputError: E150, they exceed the context; E152, E154 and E159, as of a chat.
        """
        asked = f"<Instruct>: {task}\n\n<Query>: {query}\n\n<Document>: {document}"
        limits = self.bundle.manifest.limits
        assert limits is not None
        tokens = self._judged([{"role": "system", "content": _SYSTEM}, {"role": "user", "content": asked}])
        check_context(len(tokens) + 1, limits.context)
        return tokens

    def _judged(self, messages: list[Message]) -> list[int]:
        chat_options, limits = ChatOptions(thinking_budget=0), self.bundle.manifest.limits
        enough = None if limits is None else limits.context
        try:
            return self.message_format.prompt(messages, chat_options, enough)
        except InputError as refused:
            if refused.code != "E154" or len(messages) == 1:
                raise
        # A template without a place for a system message.
        joined = "\n\n".join(str(message["content"]) for message in messages)
        return self._judged([{"role": "user", "content": joined}])

    @property
    def verdicts(self) -> tuple[int, int]:
        """The first tokens of ``yes`` and of ``no``.

        Raises:
            InputError: E897, the tokenizer has none that differ, or there is no chat template.
        """
        where = str(self.bundle.path)
        if not self.has_template:
            raise no_ranking(where, "its tokenizer has no chat template to ask by")
        yes, no = (token_ids(self.tokenizer, word, special=False)[:1] for word in ("yes", "no"))
        if not yes or not no or yes == no:
            raise no_ranking(where, "its tokenizer writes yes and no with the same first token")
        return yes[0], no[0]


def _check_length(tokens: Sequence[int], most: int, text: str) -> None:
    if len(tokens) > most:
        what, why = f"Query and document have more than {most} tokens.", "the rest would not count"
        raise InputError(what, where=repr(text[:40]), why=why, fix="split the document", code="E643")


def relevance_of(yes: float, no: float) -> float:
    """The probability of yes against no, of their log-probabilities."""
    return _logistic(yes - no)


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value > -700 else 0.0


def _value(function: Function, pair: PairIds) -> float:
    """What the model gives for a pair; where the shapes are fixed, it is padded on the right."""
    width = function.info.inputs[0].shape[1]
    spare = (width if isinstance(width, int) else len(pair.tokens)) - len(pair.tokens)
    rows = {_TOKENS: pair.tokens, _MASK: [1] * len(pair.tokens), _SECOND: pair.second}
    given = {each.name: np.array([[*rows[each.name], *[0] * spare]], each.dtype) for each in function.info.inputs}
    return float(function.run(**given)[function.info.outputs[0].name][0, 0])


def no_ranking(where: str, why: str) -> InputError:
    """The error E897 for a model that cannot say how relevant a document is."""
    return InputError(
        "This model cannot rank documents.",
        where=where,
        why=why,
        fix="use a cross-encoder (text-classification with one label) or a decoder with a chat template",
        code="E897",
    )
