"""How far an exported sentence encoder's vectors turn: python -m benchmarks.embeddings FOLDER [--json].

FOLDER is a trained encoder in the layout of sentence-transformers. It is exported by each recipe for each target, and
every bundle embeds the sentences of ``embedding_sentences.txt`` (or of ``--texts``), one a line, and longer texts that
are joined from them. The cosine of each vector to the one that transformers' own model and the parts of
``modules.json`` give, in float32, is measured; bundles for iPhones are executed by edgec's interpreter of Core ML.
Nothing is timed. ``embedding_lengths.py`` measures lengths one by one.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.library_vectors import by_transformers, unit, vectors

if TYPE_CHECKING:
    from numpy.typing import NDArray

SENTENCES = Path(__file__).parent / "embedding_sentences.txt"
TARGETS = "host,iphone,android-cpu"
RECIPES = "float,8bit,4bit"
GOAL = 0.999
BANDS = (8, 32, 128, 512)
"""The most tokens of each band of lengths that has figures of its own."""
_JOINED_EVERY = (15, 8, 4, 2)
_FORMATS = {"iphone": "mlpackage"}


@dataclass(frozen=True)
class Band:
    """The figures of the texts of up to ``tokens`` tokens that are longer than those of the band before."""

    tokens: int
    texts: int
    lowest: float
    mean: float


@dataclass(frozen=True)
class Row:
    """The figures of one bundle.

    Attributes:
        megabytes: of the artifact.
        lowest: the smallest cosine of any sentence.
        lowest_tokens: tokens of that sentence.
        mean: of all cosines.
        reached: share of the sentences with a cosine of at least ``GOAL``, 0..1.
        refused: the error's code where the export stopped; the figures are then 0.
        bands: the cosines by the texts' lengths; bands without texts are left out.
    """

    target: str
    recipe: str
    megabytes: float = 0.0
    lowest: float = 0.0
    lowest_tokens: int = 0
    mean: float = 0.0
    reached: float = 0.0
    refused: str = ""
    bands: tuple[Band, ...] = ()


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="a trained sentence encoder")
    parser.add_argument("--targets", default=TARGETS, help="targets, separated by commas")
    parser.add_argument("--recipes", default=RECIPES, help="recipes or their files, separated by commas")
    parser.add_argument("--texts", type=Path, default=SENTENCES, help="a file with a sentence per line")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args(arguments)
    sentences = [line for line in options.texts.read_text(encoding="utf-8").splitlines() if line]
    texts = [*sentences, *joined(sentences)]
    rows = measure(options.folder, texts, options.targets.split(","), options.recipes.split(","))
    if options.json:
        print(json.dumps({"texts": len(texts), "rows": [asdict(row) for row in rows]}, indent=1))
        return
    by_length = " | ".join(f"up to {tokens} tokens" for tokens in BANDS)
    print(f"{len(texts)} texts; by length: lowest and mean cosine.\n")
    print(f"| target | recipe | MB | lowest cosine | mean | at least {GOAL} | {by_length} |")
    print("|---" * (6 + len(BANDS)) + "|")
    for row in rows:
        print(line(row), flush=True)


def joined(sentences: Sequence[str]) -> list[str]:
    """Longer texts of sentences that stand equally far apart."""
    return [" ".join(sentences[start::step]) for step in _JOINED_EVERY for start in range(step)]


def line(row: Row) -> str:
    """The row as a line of Markdown."""
    if row.refused:
        return f"| {row.target} | {row.recipe} | refused: {row.refused} |" + " |" * (3 + len(BANDS))
    lowest = f"{row.lowest:.5f} ({row.lowest_tokens} tokens)"
    known = {band.tokens: f"{band.lowest:.5f}, {band.mean:.5f}" for band in row.bands}
    by_length = " | ".join(known.get(tokens, "") for tokens in BANDS)
    figures = f"{row.megabytes:.1f} | {lowest} | {row.mean:.5f} | {row.reached:.0%} | {by_length}"
    return f"| {row.target} | {row.recipe} | {figures} |"


def measure(folder: Path, texts: Sequence[str], targets: Sequence[str], recipes: Sequence[str]) -> Iterator[Row]:
    """A row for each target and recipe."""
    wanted = float_vectors(folder, texts)
    for target in targets:
        for recipe in recipes:
            yield _row(folder, texts, wanted, target, recipe)


def float_vectors(folder: Path, texts: Sequence[str]) -> NDArray[np.float64]:
    """The vectors [N, D], of length 1, by transformers' own model and the parts of ``modules.json``, in float32."""
    from edgec.bundle.encoding import token_ids
    from edgec.bundle.tokenizer_folder import untrusted_tokenizer
    from edgec.exporter.sources.resolve import resolve

    source, tokenizer = resolve(str(folder)), untrusted_tokenizer(folder)
    assert source.tokens is not None
    compute, most = by_transformers(folder), source.tokens.high
    return np.concatenate([vectors(compute, [token_ids(tokenizer, text, most=most)]) for text in texts])


def _row(folder: Path, texts: Sequence[str], wanted: NDArray[np.float64], target: str, recipe: str) -> Row:
    import edgec
    from edgec.errors import EdgecError

    with TemporaryDirectory() as aside:
        try:
            out = edgec.export(
                str(folder), target=target, format=_FORMATS.get(target), recipe=recipe, out=Path(aside) / "x.edgec"
            )
        except EdgecError as error:
            return Row(target, Path(recipe).stem, refused=error.code)
        model = edgec.load(out)
        cosines = (unit(model.embed(texts, truncate=True, prompt_name="")) * wanted).sum(-1)
        lengths = np.array([model.embedded_tokens(text, truncate=True, prompt_name="") for text in texts])
        worst = int(cosines.argmin())
        return Row(
            target,
            Path(recipe).stem,
            megabytes=bytes_of(model.bundle.artifact_path) / 1e6,
            lowest=float(cosines[worst]),
            lowest_tokens=int(lengths[worst]),
            mean=float(cosines.mean()),
            reached=float((cosines >= GOAL).mean()),
            bands=tuple(bands(cosines, lengths)),
        )


def bands(cosines: NDArray[np.float64], lengths: NDArray[np.int64]) -> Iterator[Band]:
    """The figures of the texts by their lengths, [N] each."""
    for above, tokens in pairwise((0, *BANDS)):
        own = cosines[(lengths > above) & (lengths <= tokens)]
        if own.size:
            yield Band(tokens, own.size, float(own.min()), float(own.mean()))


def bytes_of(path: Path) -> int:
    """The bytes of a file, or of all files in a folder."""
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return sum(each.stat().st_size for each in files)


if __name__ == "__main__":
    main()
