"""The yardstick of embeddings: transformers' model with the parts of modules.json, also in padded batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.library_vectors import by_transformers, unit, vectors
from tests.exporter.tiny_sentence_encoder import expected, save_sentence_encoder, text_of, tokenizer

pytestmark = pytest.mark.long


@pytest.mark.parametrize("pooling", ["mean_tokens", "cls_token", "max_tokens", "lasttoken"])
def test_each_pooling_and_dense_layers_are_those_of_one_text_after_the_other(tmp_path: Path, pooling: str) -> None:
    folder = save_sentence_encoder(tmp_path / "tiny", pooling, dense=("Tanh", "Identity"))
    texts = [text_of(words) for words in (3, 20, 9)]
    found = vectors(by_transformers(folder), [tokenizer()(text)["input_ids"] for text in texts])
    wanted = np.stack([expected(folder, text, pooling, True) for text in texts])
    # Float32; padding is hidden, so it moves nothing but the order of additions.
    assert np.abs(found - wanted).max() < 2e-6


def test_the_length_is_one_in_float64() -> None:
    assert unit(np.array([[3.0, 4.0]], np.float32)).tolist() == [[0.6, 0.8]]
