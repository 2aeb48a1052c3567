"""The table of checkpoints: what a row says, and that every type of GGUF is written as its own quantiser makes it."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest

from benchmarks.checkpoint_fates import FateRow, table
from benchmarks.checkpoint_parts.gguf_types import OF_THE_PACKAGE, TYPES, by_package, ggml, write_types
from edgec.bundle.gguf_header import READ_TYPES, read_gguf_header
from edgec.exporter.sources.resolve import resolve


def test_a_row_has_shares_an_error_and_sizes() -> None:
    shares = {"kept": 0.8, "rounded again": 0.2}
    row = FateRow("Q4_0", {"kept": 8, "rounded again": 2}, shares, 0.0714, None, 2_000_000, 1_500_000, 1_250_000)
    assert table([row]).splitlines()[2] == (
        "| Q4_0 | 80 % kept, 20 % rounded again | 7.1% | not measured | 2.00 | 1.50 | 1.25 |"
    )


def test_all_types_that_are_read_are_in_the_table() -> None:
    assert set(TYPES) == set(READ_TYPES) - {"F32", "F16", "BF16"} and set(OF_THE_PACKAGE) <= set(TYPES)


def test_a_file_holds_what_its_quantiser_made(tiny_folder: Path, tmp_path: Path) -> None:
    source = resolve(str(tiny_folder))
    file = write_types(source, lambda parameter: "Q8_0", by_package, tmp_path / "m.gguf")
    (tensor,) = (each for each in read_gguf_header(file).tensors if each.name == "blk.1.ffn_down.weight")
    weights, name = resolve(str(file)).weights, "model.layers.1.mlp.down_proj.weight"
    assert tensor.type == "Q8_0" and weights is not None and source.weights is not None
    values = source.weights.tensor(name).float().numpy()
    wanted = gguf.dequantize(by_package("Q8_0", values), gguf.GGMLQuantizationType.Q8_0)
    assert np.array_equal(weights.tensor(name).numpy(), wanted)


def test_without_the_peers_there_is_no_quantiser_of_ggml(tmp_path: Path) -> None:
    assert ggml(tmp_path) is None


@pytest.mark.skipif(ggml(Path(__file__).parents[2]) is None, reason="the peers' environment is not installed")
@pytest.mark.parametrize("kind", sorted(set(OF_THE_PACKAGE) - {"MXFP4"}))
def test_ggml_makes_what_the_package_makes(kind: str) -> None:
    values = np.random.default_rng(0).normal(size=(4, 512)).astype(np.float32)
    quantise = ggml(Path(__file__).parents[2])
    assert quantise is not None
    number = gguf.GGMLQuantizationType[kind]
    ours, theirs = (gguf.dequantize(make(kind, values), number) for make in (by_package, quantise))
    # The package rounds halves otherwise in a few places.
    assert np.mean(ours == theirs) > 0.99
