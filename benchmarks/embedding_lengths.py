"""How far an exported encoder's vectors are from its own library's, length by length, from 1 token to 512.

    python -m benchmarks.embedding_lengths FOLDER [--recipes float,8bit] [--target host] [--by sentence-transformers]

FOLDER is a sentence encoder in the layout of sentence-transformers. Several texts of exactly each number of tokens are
cut out of ``embedding_sentences.txt``. The library computes each alone, and again in batches of one text of every
length, padded to the longest; the lowest cosine of the executed artifact's vectors to both is printed. Nothing is
timed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.embeddings import SENTENCES, bytes_of
from benchmarks.library_vectors import LIBRARIES, Compute, unit, vectors

if TYPE_CHECKING:
    from edgec.runtime_py.model import Model

TOKENS = (1, 2, 3, 8, 64, 127, 128, 129, 256, 511, 512)
TEXTS = 8
"""Texts of each length."""
_APART = 29
"""Tokens from where one text is cut to where the next one is."""

Texts = Mapping[int, Sequence[list[int]]]


@dataclass(frozen=True)
class LengthCosines:
    """The lowest cosines of the texts of one length.

    Attributes:
        tokens: of each text.
        texts: how many.
        alone: to the library's vectors of each text by itself.
        padded: to those of each text in a batch with longer ones.
    """

    tokens: int
    texts: int
    alone: float
    padded: float


@dataclass(frozen=True)
class RecipeCosines:
    """The figures of one bundle; ``lowest`` of all lengths, both ways."""

    recipe: str
    megabytes: float
    lowest: float
    lengths: tuple[LengthCosines, ...]


def cut_texts(ids: Sequence[int], tokens: Sequence[int] = TOKENS, count: int = TEXTS) -> Texts:
    """Texts of exactly so many tokens, each with the first and the last id of the whole text around its own.

    Args:
        ids: of a long text, special ones included.
        tokens: the lengths.
        count: texts of each.
    """
    assert len(ids) >= max(tokens) + count * _APART, f"the text has {len(ids)} tokens"
    return {size: [_cut(ids, size, 1 + start * _APART) for start in range(count)] for size in tokens}


def _cut(ids: Sequence[int], size: int, start: int) -> list[int]:
    """One token has no room for those around it."""
    return [ids[start]] if size == 1 else [ids[0], *ids[start : start + size - 2], ids[-1]]


def measure(model: Model, compute: Compute, texts: Texts) -> Iterator[LengthCosines]:
    """The cosines of a bundle's vectors, length by length."""
    together = [vectors(compute, batch) for batch in zip(*texts.values(), strict=True)]
    for place, (size, each) in enumerate(texts.items()):
        made = unit(np.asarray(model.embed(each)))
        alone = np.concatenate([vectors(compute, [text]) for text in each])
        padded = np.stack([batch[place] for batch in together])
        yield LengthCosines(size, len(each), *(float((made * wanted).sum(-1).min()) for wanted in (alone, padded)))


def column(folder: Path, recipe: str, target: str, form: str | None, compute: Compute, texts: Texts) -> RecipeCosines:
    """Export the encoder for texts of up to the longest length, and compare."""
    import edgec

    with TemporaryDirectory() as aside:
        out = Path(aside) / "x.edgec"
        edgec.export(str(folder), target=target, format=form, recipe=recipe, context=max(texts), out=out)
        model = edgec.load(out)
        lengths = tuple(measure(model, compute, texts))
        megabytes = bytes_of(model.bundle.artifact_path) / 1e6
    lowest = min(min(one.alone, one.padded) for one in lengths)
    return RecipeCosines(Path(recipe).stem, megabytes, lowest, lengths)


def table(columns: Sequence[RecipeCosines]) -> str:
    """Lengths as rows, recipes as columns."""
    heads = [f"`{one.recipe}`, {way}" for one in columns for way in ("alone", "padded")]
    rows = [
        [f"{same[0].tokens}", *(f"{value:.7f}" for one in same for value in (one.alone, one.padded))]
        for same in zip(*(one.lengths for one in columns), strict=True)
    ]
    rows.append(["artifact", *(cell for one in columns for cell in (f"{one.megabytes:.1f} MB", ""))])
    lines = [["tokens", *heads], ["---"] * (1 + len(heads)), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def long_text(folder: Path) -> list[int]:
    """The ids of all sentences, one after the other."""
    from edgec.bundle.tokenizer_folder import untrusted_tokenizer

    text = " ".join(SENTENCES.read_text(encoding="utf-8").splitlines())
    return list(untrusted_tokenizer(folder)(text)["input_ids"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="a sentence encoder")
    parser.add_argument("--recipes", default="float", help="recipes or their files, separated by commas")
    parser.add_argument("--target", default="host")
    parser.add_argument("--format", help="of the artifact; default: the target's")
    parser.add_argument("--by", choices=list(LIBRARIES), default="transformers", help="whose vectors are right")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args(arguments)
    compute, texts = LIBRARIES[options.by](options.folder), cut_texts(long_text(options.folder))
    recipes = options.recipes.split(",")
    columns = [column(options.folder, one, options.target, options.format, compute, texts) for one in recipes]
    if options.json:
        print(json.dumps({"by": options.by, "columns": [asdict(one) for one in columns]}, indent=1))
        return
    print(f"{TEXTS} texts of each length: lowest cosine to {options.by}\n\n{table(columns)}")


if __name__ == "__main__":
    main()
