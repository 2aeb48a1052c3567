"""Cut a text into passages to train on and passages that are held out, if possible where a reader would pause."""

from __future__ import annotations

import re
from collections.abc import Iterator

HELD_OUT_EVERY = 50
HELD_OUT_SHARE = 10
CHUNK_BYTES = 4096
LEAST_CHUNK_BYTES = 64
# Coarsest first: paragraphs, lines, sentences (also of scripts that write no space after them), words.
_ENDS = tuple(map(re.compile, (r"\n\n", r"\n", r"(?<=[.!?])\s+|(?<=[。！？])", r"\s+")))

Span = tuple[int, int]


def split(text: str) -> tuple[list[str], list[str]]:
    """The passages to train on, which end where a held-out one begins, and the held-out ones.

    Chunks of at least 4 KiB end where a paragraph does; where that gives a single chunk, the size is halved, and so on.
    A paragraph of more than two chunks is cut at line ends, such a line after sentences, such a sentence between words,
    such a word anywhere. Every fiftieth chunk is held out; of fifty or fewer the last tenth, but at least one. No
    character is in both.
    """
    text = text.strip()
    spans = _chunks_of(text)
    held = _held_out(len(spans))
    train: list[list[Span]] = [[]]
    for index, span in enumerate(spans):
        if index not in held:
            train[-1].append(span)
        elif train[-1]:
            train.append([])
    return [text[run[0][0] : run[-1][1]] for run in train if run], [text[a:b] for a, b in map(spans.__getitem__, held)]


def _chunks_of(text: str) -> list[Span]:
    """Chunks of the largest size that gives more than one."""
    size = CHUNK_BYTES
    while len(spans := _chunks(text, size)) < 2 and size > LEAST_CHUNK_BYTES:
        size //= 2
    return spans


def _held_out(chunks: int) -> range:
    """The indices of the chunks that are held out; none where there is only one chunk."""
    if chunks > HELD_OUT_EVERY:
        return range(HELD_OUT_EVERY - 1, chunks, HELD_OUT_EVERY)
    return range(chunks - max(1, chunks // HELD_OUT_SHARE), chunks) if chunks > 1 else range(0)


def _chunks(text: str, size: int) -> list[Span]:
    """Runs of pieces of at least ``size`` bytes; what is left at the end of a short text joins the last run."""
    chunks: list[Span] = []
    start, filled = 0, 0
    pieces = list(_pieces(text, (0, len(text)), 2 * size, 0))
    for place, (begin, end) in enumerate(pieces):
        after = pieces[place + 1][0] if place + 1 < len(pieces) else end
        filled += len(text[begin:after].encode())
        if filled >= size:
            chunks.append((start, end))
            start, filled = after, 0
    if not filled:
        return chunks
    if chunks and len(chunks) < HELD_OUT_EVERY:
        return [*chunks[:-1], (chunks[-1][0], len(text))]
    return [*chunks, (start, len(text))]


def _pieces(text: str, span: Span, most: int, level: int) -> Iterator[Span]:
    """A span cut at its coarsest ends; parts that are still too large are cut at finer ones."""
    for begin, end in _parts(text, span, most, level):
        large = level < len(_ENDS) and len(text[begin:end].encode()) > most
        yield from _pieces(text, (begin, end), most, level + 1) if large else ((begin, end),)


def _parts(text: str, span: Span, most: int, level: int) -> Iterator[Span]:
    """What lies between the ends of one kind; after the last kind, pieces of as many characters as surely fit."""
    start, stop = span
    if level == len(_ENDS):
        step = most // 4
        yield from ((place, min(place + step, stop)) for place in range(start, stop, step))
        return
    for end in _ENDS[level].finditer(text, start, stop):
        yield start, end.start()
        start = end.end()
    yield start, stop
