"""The books as passages and dialogues: what is trained on, and what is held out."""

import re
from collections.abc import Sequence
from pathlib import Path

USER, REPLY = "CITIZEN", "MENENIUS"
HELD_OUT_EVERY = 50
CHUNK_BYTES = 4096
SPEECH_CHARACTERS = 400
SPEECH = re.compile(r"([A-Z][A-Za-z ]{1,30}):\n(.+)", re.DOTALL)


def chunks(text: str) -> list[str]:
    """Cut a text into chunks of at least 4 KiB that end where a paragraph ends."""
    complete: list[str] = []
    pending: list[str] = []
    size = 0
    for paragraph in text.strip().split("\n\n"):
        pending.append(paragraph)
        size += len(paragraph.encode()) + 2
        if size >= CHUNK_BYTES:
            complete.append("\n\n".join(pending))
            pending, size = [], 0
    return [*complete, "\n\n".join(pending)] if pending else complete


def is_held_out(index: int) -> bool:
    """Tell whether the chunk with this index is held out, as every fiftieth is."""
    return index % HELD_OUT_EVERY == HELD_OUT_EVERY - 1


def split_text(text: str) -> tuple[list[str], list[str]]:
    """Split a text into the passages to train on and the passages held out.

    Neighbouring chunks are joined, so a training passage ends only where a held-out one begins.
    """
    train: list[list[str]] = [[]]
    held_out: list[str] = []
    for index, chunk in enumerate(chunks(text)):
        if is_held_out(index):
            held_out.append(chunk)
            train.append([])
        else:
            train[-1].append(chunk)
    return ["\n\n".join(run) for run in train if run], held_out


def held_out_passages(texts: Sequence[Path]) -> list[str]:
    """Return the passages of these texts that the example model never saw."""
    return [passage for path in texts for passage in split_text(path.read_text(encoding="utf-8"))[1]]


def held_out_text(texts: Sequence[Path]) -> str:
    """Return the held-out passages as one string."""
    return "\n\n".join(held_out_passages(texts))


def training_passages(texts: Sequence[Path]) -> list[str]:
    """Return the passages of these texts that are trained on."""
    return [passage for path in texts for passage in split_text(path.read_text(encoding="utf-8"))[0]]


def speech(paragraph: str) -> str | None:
    """Return what a character says, if the paragraph is a short speech of a play."""
    match = SPEECH.fullmatch(paragraph.strip())
    return match[2] if match and len(match[2]) <= SPEECH_CHARACTERS else None


def render_dialogue(speeches: Sequence[str]) -> str:
    """Write speeches in turn as the chat template does: the user's role first, then the one that replies."""
    roles = (USER, REPLY)
    return "".join(f"{roles[turn % 2]}:\n{said.strip()}\n\n" for turn, said in enumerate(speeches))


def dialogues(passage: str) -> list[str]:
    """Find exchanges of two speeches, and at every third place also of four."""
    said = [speech(paragraph) for paragraph in passage.split("\n\n")]
    exchanges: list[str] = []
    for start in range(len(said) - 1):
        for turns in (2, 4) if start % 3 == 0 else (2,):
            part = [one for one in said[start : start + turns] if one is not None]
            if len(part) == turns:
                exchanges.append(render_dialogue(part))
    return exchanges
