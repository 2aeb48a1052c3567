"""A package corrupted on purpose: sealed anew, so that every checksum is right, and found by its numbers alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.backends.coreml.interpreter import load_package
from edgec.backends.coreml.interpreter.blob import WeightFile
from edgec.backends.coreml.interpreter.graph import StoredConstant
from edgec.backends.coreml.interpreter.proto import SPEC_FILE, messages
from edgec.backends.coreml.mlpackage import execute
from edgec.backends.coreml.stored import package_layout
from edgec.bundle.folder import open_bundle, write_bundle
from edgec.errors import BudgetError, InputError
from edgec.exporter.parity import ladder
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.stages.static_decoder import lowering_budget
from edgec.ir.call_plan import static_plan
from edgec.ir.static_methods import run_static
from edgec.runtime_py.verify.verify import verify

Bundles = Callable[..., Path]
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
        if step.operator in ("conv", "linear") and isinstance(value, StoredConstant) and len(value.type.shape) > 1
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


@pytest.mark.slow
@pytest.mark.parametrize("corruption", ["one weight block permuted", "one state swapped"])
def test_it_is_caught_by_verify_and_by_the_ladder(corruption: str, phone_bundle: Bundles, tmp_path: Path) -> None:
    name, corrupt = CORRUPTIONS[corruption]
    intact = phone_bundle("mlpackage")
    damaged = _sealed(intact, tmp_path / "damaged.edgec", name, corrupt(intact))
    report = verify(damaged, threads=1)
    (failed,) = [check for check in report.checks if check.status == "failed"]
    assert failed.name == "output vectors"
    expected, actual = _logits(intact), _logits(damaged)
    # Far beyond what the ladder allows a float model in float16: 3e-2 of the largest logit.
    assert float((expected - actual).abs().max()) > 5e-2 * float(expected.abs().max())


@pytest.mark.long
def test_an_intact_bundle_sealed_anew_passes(phone_bundle: Bundles, tmp_path: Path) -> None:
    intact = phone_bundle("mlpackage")
    same = _sealed(intact, tmp_path / "same.edgec", PROGRAM, (intact / PROGRAM).read_bytes())
    assert verify(same, threads=1).passed


@pytest.mark.long
def test_without_a_new_seal_the_checksum_catches_it(phone_bundle: Bundles, tmp_path: Path) -> None:
    intact = phone_bundle("mlpackage")
    copy = tmp_path / "copy.edgec"
    shutil.copytree(intact, copy)
    (copy / WEIGHTS).write_bytes(_permuted(intact))
    with pytest.raises(InputError) as error:
        verify(copy, threads=1)
    assert error.value.code == "E135"


_BLOCK = 512


def _two_blocks_swapped(bundle: Path) -> bytes:
    """The weight file with the first two 512-byte blocks of a layer's packed 4-bit matrix exchanged."""
    runs = [run for run in package_layout(bundle / "model.mlpackage").stored if run.dtype in ("uint4", "int4")]
    layer = next(run for run in runs if run.bytes >= 8 * _BLOCK and "logits" not in run.key and "embed" not in run.key)
    old = WeightFile(bundle / WEIGHTS).bytes_at(int(layer.key.rpartition("@")[2])).tobytes()
    raw = bytearray((bundle / WEIGHTS).read_bytes())
    at = raw.index(old)
    raw[at : at + 2 * _BLOCK] = old[_BLOCK : 2 * _BLOCK] + old[:_BLOCK]
    return bytes(raw)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["lut4", "int4-channel"])
def test_swapped_blocks_of_packed_weights_are_caught_by_the_shipped_budgets(
    recipe: str, phone_bundle: Bundles, tmp_path: Path
) -> None:
    intact = phone_bundle("mlpackage", recipe)
    (passed,) = [r for r in open_bundle(intact).manifest.parity if (r.stage, r.half) == ("artifact", "lowering")]
    assert passed.gated and passed.budget == lowering_budget(load_recipe(recipe), half=True, untrained=True)
    damaged = _sealed(intact, tmp_path / "damaged.edgec", WEIGHTS, _two_blocks_swapped(intact))
    stages = [ladder.Stage(name, _logits(bundle)) for name, bundle in (("intact", intact), ("damaged", damaged))]
    with pytest.raises(BudgetError, match="E201"):
        ladder.gate([ladder.lowering_rung(stages[0], stages[1], passed.budget, rounded=True)])
    assert [check.name for check in verify(damaged, threads=1).checks if check.status == "failed"] == ["output vectors"]


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["lut4", "int4-channel"])
@pytest.mark.parametrize("kind", ["mlpackage", "pte", "aimodel"])
def test_intact_artifacts_of_packed_random_weights_keep_the_budget(
    kind: str, recipe: str, phone_bundle: Bundles
) -> None:
    assert verify(phone_bundle(kind, recipe), threads=1).passed
