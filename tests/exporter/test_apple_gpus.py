"""``edgec export --target iphone --unit gpu`` end to end, on models of a few kilobytes."""

from __future__ import annotations

import re
import shutil
import struct
from pathlib import Path

import pytest

import edgec
from edgec.backends.coreml.interpreter.proto import read_spec
from edgec.bundle.folder import open_bundle
from edgec.exporter.parity import ladder
from edgec.ir.call_plan import static_plan
from edgec.ir.static_methods import run_static
from edgec.runtime_py.verify.verify import verify

pytestmark = pytest.mark.long

# Random weights are rounded worse than trained ones: quality is not judged, lowering is.
LOOSE = {"kl_mean": 5.0, "top1_agreement": 0.0}


@pytest.fixture(scope="module")
def package(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("gpu") / "tiny-gpu.edgec"
    return edgec.export(tiny_folder, target="iphone", unit="gpu", context=128, budgets=LOOSE, out=out)


def _operators(package: Path) -> dict[str, list[str]]:
    functions = read_spec(package / "model.mlpackage").mlProgram.functions
    return {
        name: [each.type for block in function.block_specializations.values() for each in block.operations]
        for name, function in functions.items()
    }


def test_a_package_for_the_gpu_has_the_form_that_gpus_like(package: Path) -> None:
    manifest = open_bundle(package).manifest
    assert (manifest.format, manifest.artifact) == ("mlpackage", "model.mlpackage")
    assert manifest.target.endswith("-gpu") and manifest.limits is not None and manifest.limits.prefill_chunk == 128
    for operators in _operators(package).values():
        assert operators.count("scaled_dot_product_attention") == 2
        assert "constexpr_blockwise_shift_scale" in operators and "linear" in operators
        assert "conv" not in operators and "matmul" not in operators
    assert {finding.rule for finding in manifest.lint} <= {"small_scales"}


def test_it_is_executed_verifies_and_generates(package: Path) -> None:
    rungs = [rung for rung in open_bundle(package).manifest.parity if rung.stage == "artifact"]
    assert [rung.half for rung in rungs] == ["lowering", "quality"]
    assert rungs[0].passed and rungs[0].gated and "simulated" in rungs[0].note
    assert verify(package).passed
    assert 0 < len(edgec.load(package).generate([3, 4, 5], max_new_tokens=4).tokens) <= 4


def _largest_blob(raw: bytes) -> slice:
    """The largest tensor of a weight file: each has a mark, its type, its bytes and where they begin before it."""
    places = [found.start() for found in re.finditer(re.escape(struct.pack("<I", 0xDEADBEEF)), raw)]
    sizes = [struct.unpack_from("<QQ", raw, place + 8) for place in places]
    size, start = max(sizes)
    return slice(start, start + size)


def test_integers_that_changed_places_are_caught(package: Path, tmp_path: Path) -> None:
    """The halves of the largest matrix, swapped."""
    from edgec.backends.coreml.whole_package import execute

    copy = tmp_path / "model.mlpackage"
    shutil.copytree(package / "model.mlpackage", copy)
    weights = copy / "Data" / "com.apple.CoreML" / "weights" / "weight.bin"
    raw = bytearray(weights.read_bytes())
    place = _largest_blob(bytes(raw))
    half = (place.stop - place.start) // 2
    raw[place] = raw[place.start + half : place.stop] + raw[place.start : place.start + half]
    weights.write_bytes(raw)
    tokens = list(range(1, 100))
    one, other = (
        run_static(execute(path), tokens, static_plan(len(tokens), 128)) for path in (package / "model.mlpackage", copy)
    )
    rung = ladder.lowering_rung(
        ladder.Stage("intact", one), ladder.Stage("changed", other), ladder.UNTRAINED_HALF_LOWERING
    )
    assert not rung.passed


@pytest.mark.slow
def test_core_ai_has_the_same_form(tiny_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.edgec"
    bundle = edgec.export(
        tiny_folder, target="mac-m4", format="aimodel", recipe="4bit", context=128, budgets=LOOSE, out=out
    )
    manifest = open_bundle(bundle).manifest
    assert manifest.artifact == "model.aimodel" and manifest.target.startswith("mac-m4")
    assert verify(bundle).passed
