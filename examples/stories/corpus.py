"""The sampled stories as text and as token ids: what is trained on, and what is held out."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from examples.stories.sampling import Story, read_stories
from examples.stories.tokens import BOS, EOS, token_id

HELD_OUT_EVERY = 100
SHORTEST_CHARACTERS = 100
WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
Ids = npt.NDArray[np.uint16]


@dataclass(frozen=True)
class Corpus:
    """Token ids of all stories to train on, each between ``<s>`` and ``</s>``, and where each story begins."""

    stream: Ids
    beginnings: npt.NDArray[np.int64]


def is_held_out(story: Story) -> bool:
    """Tell whether a story is never trained on: one in a hundred, by its seed."""
    return story.seed % HELD_OUT_EVERY == HELD_OUT_EVERY - 1


def all_stories(folder: Path) -> list[Story]:
    """Every usable story of a folder, in the order of the seeds."""
    stories = [story for path in sorted(folder.glob("stories-*.jsonl")) for story in read_stories(path)]
    return sorted((one for one in stories if len(one.text) >= SHORTEST_CHARACTERS), key=lambda one: one.seed)


def split(stories: Iterable[Story]) -> tuple[list[Story], list[Story]]:
    """The stories to train on and those held out; a text that occurs twice is kept once."""
    once = list({story.text: story for story in stories}.values())
    return [one for one in once if not is_held_out(one)], [one for one in once if is_held_out(one)]


def build_corpus(tokenizer: Tokenizer, stories: Sequence[Story]) -> Corpus:
    """Turn stories into token ids; one that the model did not end has no end token."""
    first, last = token_id(tokenizer, BOS), token_id(tokenizer, EOS)
    encoded = tokenizer.encode_batch([story.text for story in stories], add_special_tokens=False)
    parts = [
        np.asarray([first, *one.ids, *([last] if story.ended else [])], dtype=np.uint16)
        for one, story in zip(encoded, stories, strict=True)
    ]
    ends = np.cumsum([len(part) for part in parts])
    return Corpus(np.concatenate(parts), np.concatenate([[0], ends[:-1]]))


def rows(corpus: Corpus, count: int, length: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Random training rows [count, length + 1], each from the beginning of a story on into the next ones."""
    last = np.searchsorted(corpus.beginnings, len(corpus.stream) - length - 1, side="right")
    starts = corpus.beginnings[rng.integers(last, size=count)]
    return np.stack([corpus.stream[start : start + length + 1] for start in starts]).astype(np.int64)


def in_one_text(stories: Iterable[Story]) -> str:
    """Stories between the tokens that stand around them in training, an empty line after each."""
    return "\n\n".join(f"{BOS}{one.text}{EOS if one.ended else ''}" for one in stories)


def write_texts(folder: Path, shown_characters: int = 12_000) -> tuple[Path, Path]:
    """Write the stories as text for ``edgec adapt`` and ``edgec eval``.

    Returns:
        ``stories.txt`` with everything that is trained on, in the form of ``in_one_text``, and ``held-out.txt``, to be
        kept beside the finished model: as many of the held-out stories as ``shown_characters`` hold, without tokens.
    """
    trained, held_out = split(all_stories(folder))
    few: list[str] = []
    for story in held_out:
        if sum(map(len, few)) + len(story.text) > shown_characters:
            break
        few.append(story.text)
    paths = folder / "stories.txt", folder / "held-out.txt"
    for path, text in zip(paths, (in_one_text(trained), "\n\n".join(few)), strict=True):
        path.write_text(text + "\n", encoding="utf-8")
    return paths


def words(text: str) -> list[str]:
    """The words of a text in lower case."""
    return WORD.findall(text.lower())
