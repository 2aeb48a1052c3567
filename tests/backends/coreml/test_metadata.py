"""What a package says of itself, read back from its file."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest
import torch
from torch import nn

from edgec.backends.coreml.interpreter import load_package
from edgec.backends.coreml.interpreter.proto import WEIGHT_FOLDER, read_spec
from edgec.backends.coreml.metadata import PackageCard, bounded, describe_package
from edgec.backends.coreml.mlpackage import lower
from edgec.backends.coreml.package import write_package
from edgec.exporter.capture.module import capture_module
from edgec.passes.static.fp16_safe_norm import Fp16SafeNorm
from edgec.passes.static.position_tables import PositionTables
from edgec.passes.static.static_cache import StaticCache
from tests.passes.static_methods import CONTEXT, cached, methods

CARD = PackageCard("Somebody", "apache-2.0", "abc123", "A small model.", {"edgec_recipe": "float"})


@pytest.mark.long
def test_a_package_says_who_made_it_and_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "x.mlpackage"
    write_package({"main": capture_module(nn.Linear(8, 64), (torch.randn(1, 8),))}, path)
    describe_package(path, CARD)
    about = read_spec(path).description.metadata
    assert (about.author, about.license, about.versionString) == ("Somebody", "apache-2.0", "abc123")
    assert about.shortDescription == "A small model."
    weights = (path / WEIGHT_FOLDER / "weight.bin").read_bytes()
    assert about.userDefined["edgec_weights_sha256"] == sha256(weights).hexdigest()
    assert about.userDefined["edgec_recipe"] == "float"
    assert about.userDefined["com.github.apple.coremltools.version"]
    assert load_package(path).functions["main"].inputs


@pytest.mark.slow
@pytest.mark.long
def test_every_value_of_every_function_is_described(tmp_path: Path) -> None:
    path = tmp_path / "x.mlpackage"
    programs = methods(cached("short llama"), [PositionTables(CONTEXT), StaticCache(32), Fp16SafeNorm()])
    lower(programs, path, lambda step, done, total: None)
    describe_package(path, CARD)
    described = read_spec(path).description
    assert [function.name for function in described.functions] == ["prefill", "decode"]
    for function in described.functions:
        said = {value.name: value.shortDescription for value in (*function.input, *function.output, *function.state)}
        assert said["tokens"].startswith("Token ids") and said["logits"].startswith("Scores")
        assert said["key_cache_0"].startswith("Keys") and said["value_cache_1"].startswith("Values")
        assert all(said.values()) and len(said) == 8


@pytest.mark.long
def test_values_of_any_network_have_their_shapes(tmp_path: Path) -> None:
    path = tmp_path / "x.mlpackage"
    write_package({"main": capture_module(nn.ReLU(), (torch.randn(1, 4),))}, path)
    describe_package(path, CARD)
    described = read_spec(path).description
    assert [value.shortDescription for value in described.input] == ["float32 [1, 4]"]
    assert described.metadata.userDefined["edgec_weights_sha256"] == ""


def test_texts_of_others_are_bounded_and_in_one_line() -> None:
    assert bounded("a\nb\x00c\u202e  d") == "a b c d"
    assert bounded("x" * 10_000) == "x" * 297 + "..."
    assert len(bounded("\n" * 100_000 + "x")) == 0
