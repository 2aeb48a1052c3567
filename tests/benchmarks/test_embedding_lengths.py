"""Vectors of 1 to 512 tokens against transformers' own: what the benchmark cuts and compares, and the bound itself."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import edgec
from benchmarks.embedding_lengths import TOKENS, LengthCosines, RecipeCosines, cut_texts, long_text, measure, table
from benchmarks.embeddings import GOAL
from benchmarks.library_vectors import by_transformers
from tests.exporter.tiny_sentence_encoder import bert, qwen3, save_sentence_encoder

TRAINED = "EDGEC_TRAINED_ENCODER"
"""Where this names the folder of a trained sentence encoder of 512 positions, it is measured too."""
FIRST, LAST = 2, 3


def ids() -> list[int]:
    """A long text of the tiny tokenizer's words, between its special tokens."""
    return [FIRST, *random.Random(0).choices(range(4, 18), k=800), LAST]


def test_texts_have_exactly_the_lengths_and_keep_the_tokens_around_them() -> None:
    texts = cut_texts(ids())
    assert tuple(texts) == TOKENS and {len(each) for each in texts.values()} == {8}
    assert all(len(text) == size for size, each in texts.items() for text in each)
    assert all((text[0], text[-1]) == (FIRST, LAST) for size, each in texts.items() if size > 1 for text in each)
    assert all(text[0] not in (FIRST, LAST) for text in texts[1])
    assert len({tuple(text) for text in texts[512]}) == 8
    with pytest.raises(AssertionError, match="700 tokens"):
        cut_texts(ids()[:700])


def test_the_table_has_a_row_for_each_length_and_a_pair_of_columns_for_each_recipe() -> None:
    lengths = (LengthCosines(1, 8, 0.5, 0.25), LengthCosines(512, 8, 1.0, 0.75))
    lines = table(
        [RecipeCosines("float", 90.4, 0.25, lengths), RecipeCosines("8bit", 23.0, 0.25, lengths)]
    ).splitlines()
    assert lines[0] == "| tokens | `float`, alone | `float`, padded | `8bit`, alone | `8bit`, padded |"
    assert lines[2].startswith("| 1 | 0.5000000 | 0.2500000 | 0.5")
    assert lines[-1] == "| artifact | 90.4 MB |  | 23.0 MB |  |"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "pooling"), [(bert, "mean_tokens"), (bert, "cls_token"), (qwen3, "lasttoken"), (qwen3, "mean_tokens")]
)
def test_float_bundles_stay_within_the_bound_at_every_length(
    tmp_path: Path, kind: Callable[[int], Any], pooling: str
) -> None:
    folder = save_sentence_encoder(tmp_path / "tiny", pooling, model=kind(512))
    model = edgec.load(edgec.export(folder, target="host", recipe="float", out=tmp_path / "x.edgec"))
    found = [*measure(model, by_transformers(folder), cut_texts(ids()))]
    assert [one.tokens for one in found] == [*TOKENS]
    # Float32 in another order of additions, so that far more than the bound holds.
    assert min(min(one.alone, one.padded) for one in found) > 1 - 1e-6 > GOAL


@pytest.mark.slow
def test_another_pooling_is_not_within_the_bound(tmp_path: Path) -> None:
    folder = save_sentence_encoder(tmp_path / "tiny", "mean_tokens", model=bert(512))
    other = save_sentence_encoder(tmp_path / "other", "cls_token", model=bert(512))
    model = edgec.load(edgec.export(folder, target="host", recipe="float", out=tmp_path / "x.edgec"))
    found = [*measure(model, by_transformers(other), cut_texts(ids(), (8, 64)))]
    assert max(max(one.alone, one.padded) for one in found) < GOAL


@pytest.mark.slow
@pytest.mark.skipif(TRAINED not in os.environ, reason=f"{TRAINED} names no folder")
def test_a_trained_encoder_stays_within_the_bound(tmp_path: Path) -> None:
    folder = Path(os.environ[TRAINED])
    bundle = edgec.export(folder, target="host", recipe="float", context=512, out=tmp_path / "x.edgec")
    found = [*measure(edgec.load(bundle), by_transformers(folder), cut_texts(long_text(folder)))]
    assert min(min(one.alone, one.padded) for one in found) > 1 - 1e-6 > GOAL
