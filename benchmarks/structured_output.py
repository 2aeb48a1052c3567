"""Structured output: how long a mask takes at a large vocabulary, and whether real schemas are held to.

    python -m benchmarks.structured_output                                  # masks, at 150,000 made-up tokens
    python -m benchmarks.structured_output --schemas DIR --count 1000       # texts of JSONSchemaBench's data/
    python -m benchmarks.structured_output --maskbench DIR --count 20000    # instances of MaskBench's maskbench/data/

DIR is searched for .json files, of which a sample with a fixed seed is taken. --schemas lets a tiny model with random
weights write a text of at most 512 tokens for each schema, at temperature 1: the hardest case for ending; jsonschema
judges it by the draft that the schema names. --maskbench gives each schema the instances of its file.
--vocabulary FILE takes a published vocabulary: a file of ranks as tiktoken reads it. Nothing of DIR or FILE is copied.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.structured_parts.instances import measure_instances
from benchmarks.structured_parts.masks import measure_masks
from benchmarks.structured_parts.texts import measure_texts
from benchmarks.structured_parts.vocabularies import SMALL, made_up, published
from edgec.runtime_py.structured.engine import GrammarEngine

LARGE = 150_000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemas", type=Path, help="a folder of JSON Schemas")
    parser.add_argument("--maskbench", type=Path, help="a folder of schemas with instances, as MaskBench has them")
    parser.add_argument("--vocabulary", type=Path, help="a published vocabulary in tiktoken's format")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=600)
    options = parser.parse_args()
    size = LARGE if options.schemas is None else SMALL
    vocabulary = made_up(size) if options.vocabulary is None else published(options.vocabulary)
    if options.schemas is not None:
        measure_texts(vocabulary, options.schemas, options.count)
    elif options.maskbench is not None:
        measure_instances(vocabulary, options.maskbench, options.count)
    else:
        measure_masks(GrammarEngine(vocabulary), options.steps)


if __name__ == "__main__":
    main()
