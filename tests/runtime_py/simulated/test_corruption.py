"""A package corrupted on purpose: sealed anew, so that every checksum is right, and found by its numbers alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.backends.coreml.interpreter import load_package
from edgec.backends.coreml.interpreter.graph import Stored
from edgec.backends.coreml.interpreter.proto import SPEC_FILE, messages
from edgec.backends.coreml.mlpackage import execute
from edgec.errors import InputError
from edgec.exporter.bundle.folder import open_bundle, write_bundle
from edgec.exporter.parity.static_run import run_static, static_plan
from edgec.runtime_py.verify import verify

Bundles = Callable[[str], Path]
WEIGHTS = "model.mlpackage/Data/com.apple.CoreML/weights/weight.bin"
PROGRAM = f"model.mlpackage/{SPEC_FILE}"


def _sealed(source: Path, target: Path, name: str, content: bytes) -> Path:
    """The bundle with one file replaced and its manifest sealed for it."""
    bundle = open_bundle(source)
    files: dict[str, bytes | Path] = {file.path: source / file.path for file in bundle.manifest.files}
    write_bundle(target, bundle.manifest, {**files, name: content})
    return target


def _permuted(bundle: Path) -> bytes:
    """The weight file with the two halves of one layer's matrix exchanged."""
    package = load_package(bundle / "model.mlpackage")
    stored = [
        value
        for step in package.functions["decode"].graph.steps
        for value in step.inputs.values()
        if step.operator in ("conv", "linear") and isinstance(value, Stored) and len(value.type.shape) > 1
    ]
    matrix = package.constants.value(stored[0])
    assert not isinstance(matrix, (str, list))
    raw = bytearray((bundle / WEIGHTS).read_bytes())
    old = matrix.numpy().tobytes()
    at, half = raw.index(old), len(old) // 2
    raw[at : at + len(old)] = old[half:] + old[:half]
    return bytes(raw)


def _swapped(bundle: Path, function: str) -> bytes:
    """The program with the keys and the values of layer 0 exchanged in one function."""
    spec = messages().Model.FromString((bundle / PROGRAM).read_bytes())
    body = spec.mlProgram.functions[function]
    other = {"key_cache_0": "value_cache_0", "value_cache_0": "key_cache_0"}
    changed = 0
    for operation in body.block_specializations[body.opset].operations:
        for argument in operation.inputs.values():
            for binding in argument.arguments:
                if binding.name in other:
                    binding.name = other[binding.name]
                    changed += 1
    assert changed
    return bytes(spec.SerializeToString())


def _logits(bundle: Path) -> Any:
    tokens = np.random.default_rng(0).integers(0, 60, 120).tolist()
    return run_static(execute(bundle / "model.mlpackage"), tokens, static_plan(len(tokens), 64))


CORRUPTIONS: dict[str, tuple[str, Callable[[Path], bytes]]] = {
    "one weight block permuted": (WEIGHTS, _permuted),
    "one state swapped": (PROGRAM, lambda bundle: _swapped(bundle, "decode")),
}


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_it_is_caught_by_verify_and_by_the_ladder(corruption: str, phone_bundle: Bundles, tmp_path: Path) -> None:
    name, corrupt = CORRUPTIONS[corruption]
    intact = phone_bundle("mlpackage")
    damaged = _sealed(intact, tmp_path / "damaged.edgec", name, corrupt(intact))
    report = verify(damaged, threads=1)
    (failed,) = [check for check in report.checks if check.status == "failed"]
    assert failed.name == "output vectors"
    expected, found = _logits(intact), _logits(damaged)
    # Far beyond what the ladder allows a float model in float16: 3e-2 of the largest logit.
    assert float((expected - found).abs().max()) > 5e-2 * float(expected.abs().max())


def test_an_intact_bundle_sealed_anew_passes(phone_bundle: Bundles, tmp_path: Path) -> None:
    intact = phone_bundle("mlpackage")
    same = _sealed(intact, tmp_path / "same.edgec", PROGRAM, (intact / PROGRAM).read_bytes())
    assert verify(same, threads=1).passed


def test_without_a_new_seal_the_checksum_catches_it(phone_bundle: Bundles, tmp_path: Path) -> None:
    intact = phone_bundle("mlpackage")
    copy = tmp_path / "copy.edgec"
    shutil.copytree(intact, copy)
    (copy / WEIGHTS).write_bytes(_permuted(intact))
    with pytest.raises(InputError) as error:
        verify(copy, threads=1)
    assert error.value.code == "E135"
