"""An architecture with random weights as GGUF: python -m benchmarks.random_gguf CONFIG TYPE OUT.

Matrices are random blocks of TYPE (Q4_0 or Q8_0) with values about as large as trained ones, vectors are ones. No
tensor is in memory as a whole before its turn.
"""

from __future__ import annotations

import argparse
from functools import partial
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgec.backends.gguf.file import FileTensor, write_file
from edgec.exporter.gguf_file.description import describe_model, factors_tensor
from edgec.exporter.gguf_file.places import GgufPlace
from edgec.exporter.sources.resolve import resolve

# Bytes of a block of 32 values, and a scale that gives them a standard deviation of 0.02.
_BLOCKS = {"Q4_0": (18, 0.02 / 4.6), "Q8_0": (34, 0.02 / 73.9)}


def write_random(config: Path, kind: str, out: Path) -> None:
    """Write a file; a tied lm_head is left out."""
    source = resolve(str(config), random_weights=True)
    described = describe_model(source, None)
    tied = bool(source.config.get("tie_word_embeddings"))
    places = [place for place in described.places if not (tied and place.parameter == "lm_head.weight")]
    tensors = [factors_tensor(name, values) for name, values in described.factors.items()]
    tensors += [_tensor(place, kind, seed) for seed, place in enumerate(places)]
    write_file(out, described.architecture, described.describe, tensors, lambda done, total: None)


def _tensor(place: GgufPlace, kind: str, seed: int) -> FileTensor:
    if len(place.shape) < 2:
        return FileTensor(place.name, "F32", place.shape, lambda: np.ones(place.shape, np.float32).view(np.uint8))
    return FileTensor(place.name, kind, place.shape, partial(_blocks, kind, prod(place.shape) // 32, seed))


def _blocks(kind: str, count: int, seed: int) -> NDArray[np.uint8]:
    size, scale = _BLOCKS[kind]
    dice = np.random.default_rng(seed)
    blocks = dice.integers(0, 256, (count, size), dtype=np.uint8)
    blocks[:, :2] = (scale * dice.uniform(0.8, 1.2, (count, 1))).astype(np.float16).view(np.uint8)
    return blocks


def main() -> None:
    """Write one file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("config", type=Path)
    parser.add_argument("kind", choices=tuple(_BLOCKS))
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    write_random(options.config, options.kind, options.out)


if __name__ == "__main__":
    main()
