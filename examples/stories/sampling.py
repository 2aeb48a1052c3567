"""Stories written by a small model that edgec's own engine executes, one line of JSON each."""

import json
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

COOLEST, WARMEST = 0.7, 1.0


@dataclass(frozen=True)
class Story:
    """One sampled story: its seed, its temperature, the tokens it took, whether the model ended it, and its text."""

    seed: int
    temperature: float
    tokens: int
    ended: bool
    text: str


@dataclass(frozen=True)
class Share:
    """One of several processes that sample side by side, number ``index`` of ``count``, with its own seeds and file."""

    index: int = 0
    count: int = 1

    def file(self, folder: Path) -> Path:
        """The file of this process."""
        return folder / f"stories-{self.index}.jsonl"


def whole_sentences(text: str) -> str:
    """The text up to the end of its last sentence; empty where no sentence ends."""
    end = max(text.rfind(mark) for mark in ('."', '!"', '?"', ".", "!", "?"))
    closed = end + 2 if text[end + 1 : end + 2] == '"' else end + 1
    return text[:closed].strip()


def temperature_of(seed: int) -> float:
    """The temperature of a story, drawn evenly from 0.7 to 1 by its seed alone."""
    return random.Random(seed).uniform(COOLEST, WARMEST)


def sample_story(model: Any, seed: int, temperature: float) -> Story:
    """Let the model write one story after its beginning token, to its end or to the end of the context."""
    first = [model.tokenizer.bos_token_id]
    tokens = list(model.tokens(first, max_new_tokens=None, temperature=temperature, seed=seed))
    ended, text = tokens[-1] in model.eos, model.decode(tokens)
    return Story(seed, round(temperature, 4), len(tokens), ended, text.strip() if ended else whole_sentences(text))


def read_stories(path: Path) -> Iterator[Story]:
    """The stories of one file; a last line that was cut off is left out."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield Story(**json.loads(line))


def drop_cut_line(path: Path) -> None:
    """Remove a last line that an interrupted run left unfinished."""
    if path.exists():
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            with path.open("r+b") as file:
                file.truncate(whole)


def sample(bundle: Path, folder: Path, tokens: int, share: Share) -> int:
    """Append stories until this process' share of ``tokens`` is written; a later call goes on where it stopped.

    Returns:
        Tokens in this process' file.
    """
    import edgec

    folder.mkdir(parents=True, exist_ok=True)
    path = share.file(folder)
    drop_cut_line(path)
    made = [(story.seed, story.tokens) for story in read_stories(path)]
    written, wanted = sum(count for _, count in made), tokens // share.count
    seed = max((seed for seed, _ in made), default=share.index - share.count) + share.count
    model = edgec.load(bundle, threads=1)
    began, before = time.monotonic(), written
    with path.open("a", encoding="utf-8") as file:
        while written < wanted:
            story = sample_story(model, seed, temperature_of(seed))
            file.write(json.dumps(asdict(story), ensure_ascii=False) + "\n")
            file.flush()
            written, seed = written + story.tokens, seed + share.count
            if (seed // share.count) % 200 == 0:
                report(written, wanted, (written - before) / (time.monotonic() - began))
    return written


def report(written: int, wanted: int, tokens_per_s: float) -> None:
    """Print one line of progress with the time left."""
    minutes = max(0, wanted - written) / tokens_per_s / 60
    share = 100 * written / wanted
    print(f"{written:,} tokens  {share:.1f} %  {tokens_per_s:.0f} tokens/s  {minutes:.0f} min left", flush=True)
