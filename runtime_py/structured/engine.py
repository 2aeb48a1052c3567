"""The library that computes masks, llguidance, behind the few calls that edgec makes of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from edgec.errors import ToolError
from edgec.installation import install_command
from edgec.runtime_py.structured.refusals import too_much
from edgec.runtime_py.structured.vocabulary import Vocabulary

Allowed = NDArray[np.bool_]
_SILENT: Final = 0
_INNER: Final = re.compile("<backtrace>|<state>")
# Classes whose tokens are allowed or not as one, beside the library's own for JSON: words, for regular expressions.
_SLICES: Final = (r"[a-z ]{1,10}", r"[a-zA-Z0-9 ]{1,10}")


def library() -> Any:
    """The module llguidance.

    Raises:
        ToolError: E619, it is not installed.
    """
    try:
        import llguidance
    except ImportError as cause:
        raise ToolError(
            "Structured output needs llguidance, which is not installed.",
            where="llguidance",
            why=str(cause),
            fix=install_command("schema"),
            code="E619",
        ) from cause
    return llguidance


def fault_of(grammar: str) -> str:
    """What is wrong with a compiled description, or an empty string; no vocabulary is needed for that."""
    return _told(str(library().LLMatcher.validate_grammar(grammar, None)))


def _told(fault: str) -> str:
    """A fault in one line, without the library's own places and counters."""
    return " ".join(_INNER.split(fault)[0].split())


class _Tokens:
    """A vocabulary as the library wants it: with one more token, which ends texts there and nowhere else."""

    bos_token_id = None

    def __init__(self, vocabulary: Vocabulary) -> None:
        special = sorted(index for index in vocabulary.special if index < len(vocabulary.tokens))
        self.eos_token_id = len(vocabulary.tokens)
        names = {index: b"<special %d>" % index for index in special}
        self.tokens = [names.get(index, text) for index, text in enumerate(vocabulary.tokens)] + [b"<end>"]
        self.special_token_ids = [*special, self.eos_token_id]
        self._vocabulary = vocabulary

    def __call__(self, text: bytes | str) -> list[int]:
        return self._vocabulary.spelled(text.encode() if isinstance(text, str) else text)


class GrammarEngine:
    """The library with one vocabulary.

    Attributes:
        vocabulary: what tokens write.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        llguidance = library()
        size = len(vocabulary.tokens) + 1
        slices = [*llguidance.LLTokenizer.general_slices(), *_SLICES]
        tokens = llguidance.TokenizerWrapper(_Tokens(vocabulary))
        self._tokens = llguidance.LLTokenizer(tokens, n_vocab=size, slices=slices)
        self._matcher = llguidance.LLMatcher

    def compile(self, grammar: str) -> Matcher:
        """Make the matcher of a description that has no fault.

        Raises:
            InputError: E614, it exceeds the library's limits.
        """
        return Matcher(self._matcher(self._tokens, grammar, log_level=_SILENT), self.vocabulary)


class Matcher:
    """A place in a grammar after some tokens."""

    def __init__(self, matcher: Any, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._matcher = matcher
        self._words = np.zeros((len(vocabulary.tokens) + 32) // 32, dtype="<u4")
        self._check()

    def _check(self) -> None:
        if self._matcher.is_error():
            raise too_much("structured output", _told(self._matcher.get_error()))

    @property
    def accepting(self) -> bool:
        """Whether the tokens so far are a whole text."""
        return bool(self._matcher.is_accepting())

    @property
    def stopped(self) -> bool:
        """Whether nothing may follow."""
        return bool(self._matcher.is_stopped())

    def packed(self) -> NDArray[np.uint32]:
        """One bit for each token that may come next, [words]; valid until the next call."""
        self._matcher.unsafe_compute_mask_ptr(self._words.ctypes.data, self._words.nbytes)
        self._check()
        return self._words

    def allowed(self) -> Allowed:
        """Which tokens may come next, [vocabulary]; never a special one."""
        bits = np.unpackbits(self.packed().view(np.uint8), bitorder="little")
        return bits[: len(self.vocabulary.tokens)].view(np.bool_)

    def consume(self, tokens: Sequence[int]) -> int:
        """Move on by as many leading tokens as may come next; returns how many."""
        return int(self._matcher.try_consume_tokens(list(tokens)))

    def count_fitting(self, tokens: Sequence[int]) -> int:
        """How many leading tokens may come next, without moving on."""
        return int(self._matcher.validate_tokens(list(tokens)))

    def forced(self) -> bytes:
        """The bytes that must come next."""
        return bytes(self._matcher.compute_ff_bytes())

    def fork(self) -> Self:
        """A copy at the same place."""
        return type(self)(self._matcher.deep_copy(), self.vocabulary)
