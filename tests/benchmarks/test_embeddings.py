"""The benchmark of embeddings on a tiny encoder: what a row must say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import embeddings
from tests.exporter.tiny_sentence_encoder import save_sentence_encoder, text_of


def test_the_sentences_are_many_and_of_many_lengths() -> None:
    lines = embeddings.SENTENCES.read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(set(lines)) >= 50
    words = [len(line.split()) for line in lines]
    assert min(words) == 1 and max(words) > 60
    longer = [len(text.split()) for text in embeddings.joined(lines)]
    assert min(longer) > 20 and max(longer) > 400 and sum(longer) == 4 * sum(words)


def test_each_text_is_in_the_band_of_its_length() -> None:
    found = [*embeddings.bands(np.array([0.5, 0.9, 0.7, 1.0]), np.array([3, 8, 9, 512]))]
    assert [(band.tokens, band.texts, band.lowest) for band in found] == [(8, 2, 0.5), (32, 1, 0.7), (512, 1, 1.0)]
    assert found[0].mean == pytest.approx(0.7)


@pytest.mark.slow
def test_rows_compare_with_the_model_itself(tmp_path: Path) -> None:
    folder = save_sentence_encoder(tmp_path / "tiny")
    texts = [text_of(words) for words in (1, 9, 30)]
    exact, rounded = embeddings.measure(folder, texts, ["host"], ["float", "8bit"])
    # Float32 in another order of additions; rounding moves a random model by much more.
    assert exact.lowest > 1 - 1e-6 and exact.reached == 1.0
    assert 0.9 < rounded.lowest < exact.lowest and 0 < rounded.megabytes < exact.megabytes
    assert rounded.lowest_tokens in (3, 11, 32)
    assert [(band.tokens, band.texts) for band in rounded.bands] == [(8, 1), (32, 2)]
    assert f"| host | 8bit | {rounded.megabytes:.1f} |" in embeddings.line(rounded)
    assert "refused: E201" in embeddings.line(embeddings.Row("host", "4bit", refused="E201"))
