"""How well the finished model tells stories: its samples under the teacher, their words, its loss on held-out text."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from examples.stories.corpus import all_stories, split, words
from examples.stories.sampling import sample_story, temperature_of

FIRST_SEED = 1_000_000_000


@dataclass(frozen=True)
class TextLoss:
    """Summed loss of texts, nats, with the tokens and bytes that it is summed over."""

    nats: float
    tokens: int
    text_bytes: int

    @property
    def nats_per_token(self) -> float:
        """Mean loss per token of the model's own tokenizer."""
        return self.nats / max(1, self.tokens)

    @property
    def bits_per_byte(self) -> float:
        """Mean loss per byte of text, which models with other tokenizers can be compared by."""
        return self.nats / math.log(2) / max(1, self.text_bytes)


@torch.no_grad()
def loss_on(folder: Path, texts: Iterable[str]) -> TextLoss:
    """The loss of a model on texts, each from its beginning and cut where the context ends, in float32."""
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    nats, tokens, size = 0.0, 0, 0
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=False)[: model.config.max_position_embeddings - 1]
        row = torch.tensor([[tokenizer.bos_token_id, *ids]])
        nats += float(model(input_ids=row, labels=row).loss) * len(ids)
        tokens += len(ids)
        size += len(tokenizer.decode(ids).encode())
    return TextLoss(nats, tokens, size)


def known_share(texts: Iterable[str], vocabulary: Counter[str], at_least: int = 1) -> float:
    """The share of the words of texts that the vocabulary has ``at_least`` so many times, 0 to 1."""
    known = [vocabulary[word] >= at_least for text in texts for word in words(text)]
    return sum(known) / max(1, len(known))


def float_bundle(model: Path, work: Path) -> Path:
    """The finished model as a bundle for this machine in float, exported anew."""
    import edgec

    out = work / "student-float-host.edgec"
    edgec.export(str(model), target="host", recipe="float", out=out, force=True)
    return out


def samples(bundle: Path, count: int) -> list[str]:
    """Stories that the model writes from its beginning token through edgec's engine, at the teacher's temperatures."""
    import edgec

    model = edgec.load(bundle, threads=1)
    return [sample_story(model, seed, temperature_of(seed)).text for seed in range(FIRST_SEED, FIRST_SEED + count)]


def describe(name: str, texts: Sequence[str], teacher: Path, own: TextLoss, vocabulary: Counter[str]) -> str:
    """One line: the loss of texts under the teacher beside that of the teacher's own, and the share of known words."""
    loss = loss_on(teacher, texts)
    ratio = loss.nats_per_token / own.nats_per_token
    return (
        f"{name}: {loss.nats_per_token:.4f} nats per token under the teacher ({100 * (ratio - 1):+.1f} %), "
        f"{100 * known_share(texts, vocabulary):.2f} % of the words in the corpus, "
        f"{100 * known_share(texts, vocabulary, 10):.2f} % there ten times or more"
    )


def measure(teacher: Path, work: Path, out: Path, count: int) -> Iterator[str]:
    """Measure a finished model; yields lines for the model card, the last of them samples."""
    trained, held_out = split(all_stories(work))
    vocabulary = Counter(word for story in trained for word in words(story.text))
    theirs = [story.text for story in held_out[:count]]
    own = loss_on(teacher, theirs)
    yield f"corpus: {len(trained):,} stories, {sum(vocabulary.values()):,} words, {len(vocabulary):,} different ones"
    yield describe(f"{len(theirs)} held-out stories of the teacher", theirs, teacher, own, vocabulary)
    loss = loss_on(out, theirs)
    yield f"the model on these: {loss.nats_per_token:.4f} nats per token, {loss.bits_per_byte:.4f} bits per byte"
    yield f"the teacher on these: {own.bits_per_byte:.4f} bits per byte"
    bundle = float_bundle(out, work)
    texts = samples(bundle, count)
    yield describe(f"{count} stories of the model, at the teacher's temperatures", texts, teacher, own, vocabulary)
    yield from (f"    {text[:400]}" for text in texts[:6])
