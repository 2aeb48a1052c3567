"""A bundle's manifest has the numbers of its decoder, and a measurement of it takes them from there."""

from __future__ import annotations

from pathlib import Path

from edgec.bundle.folder import read_manifest
from edgec.runtime_py.bench.measured_model import measured_model
from tests.runtime_py.tiny_decoder import manifest as older_manifest


def test_the_numbers_are_those_of_the_shapes(tiny_bundle: Path) -> None:
    """Norms alone, two a layer and one at the end, are in no matrix."""
    manifest = read_manifest(tiny_bundle)
    numbers = manifest.model.numbers
    assert numbers is not None and numbers.matrices == numbers.prompt_matrices > 0
    layers = sum(alike.count for alike in numbers.layers)
    assert layers == manifest.model.layers
    norms = manifest.model.parameters - numbers.matrices - numbers.lm_head
    hidden = numbers.lm_head // (manifest.model.vocab_size or 1)
    tables = 0 if norms == (2 * layers + 1) * hidden else numbers.lm_head  # An embedding that is not tied.
    assert norms - tables == (2 * layers + 1) * hidden


def test_a_measurement_has_what_the_manifest_says(tiny_bundle: Path) -> None:
    manifest = read_manifest(tiny_bundle)
    measured = measured_model(manifest)
    assert measured is not None and manifest.ledger is not None and manifest.limits is not None
    assert measured.numbers == manifest.model.numbers
    assert measured.read_bytes == manifest.ledger.active_bytes
    assert measured.call_tokens == manifest.limits.prefill_chunk
    assert measured.kv_bits == 8 * {"float32": 4, "float16": 2, "int8": 1}[manifest.states[0].dtype]
    assert measured.kernels in ("edgec_linear", "xnnpack")
    assert (measured.kernels == "edgec_linear") is ("edgec_linear" in str(manifest.delegation))


def test_an_older_bundle_says_nothing() -> None:
    assert measured_model(older_manifest()) is None
