"""The tokens on which the parity ladder compares: text where there is a tokenizer, else seeded random tokens."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from edgec.bundle.encoding import token_ids
from edgec.errors import InputError
from edgec.exporter.parity.further import further_plan, further_tokens, most_positions
from edgec.ir.call_plan import Call, call_plan, compared_positions, static_plan

TEXT = Path(__file__).parent / "probe_text.txt"
_TOKENS = 256
# A chunk of two tokens and eight single ones.
_LEAST = 10
# Tokens after a chunk or a window's end: calls of every size follow.
_AFTER = 40


@dataclass(frozen=True)
class Probe:
    """A token sequence and how it is fed.

    Attributes:
        tokens: ids.
        plan: the calls that feed them.
        source: where the tokens come from, in words.
        further: ids of a longer text, where quality is measured; empty where there is none.
        further_plan: the calls that feed it, each with the logits of all its tokens.
    """

    tokens: tuple[int, ...]
    plan: tuple[Call, ...]
    source: str
    further: tuple[int, ...] = ()
    further_plan: tuple[Call, ...] = ()

    @property
    def positions(self) -> int:
        """The number of positions whose logits are compared."""
        return len(compared_positions(self.plan))


def make_probe(
    tokenizer: object | None,
    vocab_size: int,
    context: int,
    chunk: int,
    rows: int,
    text: str | None,
    *,
    window: int = 0,
    static: bool = False,
    padding: int | None = None,
) -> Probe:
    """Choose the ladder's tokens and how they are fed.

    Args:
        tokenizer: a transformers tokenizer, or None for seeded tokens.
        vocab_size: all ids are below it.
        context: the most tokens that the artifact takes.
        chunk: tokens per call; the probe spans more than one chunk where the context allows.
        rows: positions with logits per call.
        text: the user's own text; None for the built-in one.
        window: tokens in the widest sliding window, sinks included; the probe continues after its end.
        static: the artifact has methods of fixed shape, which take whole chunks and single tokens.
        padding: a token that seeded tokens leave out.

    Raises:
        InputError: E409, the text has too few tokens to execute prefill and decode.
    """
    beyond_window = window + 2 * chunk + _AFTER if window else 0
    beyond_chunk = chunk + chunk // 3 + 2 * rows + _AFTER
    length = min(context, max(_TOKENS, beyond_chunk, 3 * chunk + _AFTER if static else 0, beyond_window))
    ids = _encode(tokenizer, text or TEXT.read_text(), vocab_size) if tokenizer is not None else []
    source = "text" if ids else "seeded random tokens"
    if text and 0 < len(ids) < min(_LEAST, length):
        raise _too_short(len(ids))
    further = _further(tokenizer, vocab_size, context, tuple(ids[length:]) if text else None) if ids else ()
    ids = ids or _draw_tokens(vocab_size, length, padding)
    wanted = max(len(ids), beyond_window) if text else length
    ids = list(islice(cycle(ids), min(length, wanted)))
    plan = static_plan(len(ids), chunk, window) if static else call_plan(len(ids), chunk, rows)
    return Probe(tuple(ids), plan, source, further, further_plan(len(further), chunk))


def _further(tokenizer: object, vocabulary: int, context: int, rest: tuple[int, ...] | None) -> tuple[int, ...]:
    """The further tokens: the rest of the user's own text, or those of the built-in one."""
    if rest is None:
        return further_tokens(tokenizer, vocabulary, context)
    return rest[: most_positions(vocabulary, context)]


def _too_short(tokens: int) -> InputError:
    return InputError(
        what=f"a text of {tokens} tokens is too short",
        where="--text",
        why="the parity ladder executes a chunk of prefill and then decode, token by token",
        fix=f"give a text of {_LEAST} tokens or more, or leave --text out",
        code="E409",
    )


def _encode(tokenizer: object, text: str, vocab_size: int) -> list[int]:
    return [token for token in token_ids(tokenizer, text) if token < vocab_size]


def _draw_tokens(vocab_size: int, length: int, padding: int | None) -> list[int]:
    generator = random.Random(0)
    drawn = [generator.randrange(vocab_size) for _ in range(length)]
    return [(token + 1) % vocab_size if token == padding else token for token in drawn]
