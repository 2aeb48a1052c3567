"""Static methods as ONNX say what their graphs say, with every constant stored once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import edgec
from edgec.backends.onnx.onnx_form import OnnxForm
from edgec.bundle.folder import open_bundle
from edgec.exporter.capture.module import capture_module
from edgec.ir.program import Program
from edgec.ir.static_methods import run_static
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.compress.quantize import Quantize
from edgec.passes.compress.quantize_embedding import QuantizeEmbedding
from edgec.passes.contract import Pass, nodes_of, run_pass
from edgec.passes.static.finite_mask import FiniteMask
from edgec.passes.static.position_tables import PositionTables
from edgec.passes.static.static_cache import StaticCache
from edgec.runtime_py.verify.verify import verify
from tests.backends.machine_paths import machine_paths
from tests.passes.static_methods import CONTEXT, PLAN, applied, cached, methods, run, tokens

pytestmark = pytest.mark.long

INDEX = torch.ops.aten.index.Tensor
SIDE = 64

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

FOUR = WeightScheme(bits=4, group_size=32, activation_bits=0)
CHANNEL = WeightScheme(bits=4, group_size=0, activation_bits=0)
EIGHT = WeightScheme(bits=8, group_size=0, activation_bits=0)
ROUNDING: Mapping[str, tuple[Pass, ...]] = {
    "float": (),
    "4-bit groups": (Quantize((), FOUR, EIGHT), QuantizeEmbedding(8, 0)),
    "4-bit channels": (Quantize((), CHANNEL, EIGHT), QuantizeEmbedding(8, 32)),
}


_FOLDERS = TemporaryDirectory()


@lru_cache(maxsize=4)
def programs(family: str, rounding: str) -> dict[str, Program]:
    """Static methods whose caches are the caller's."""
    how: list[Pass] = [PositionTables(CONTEXT), StaticCache(1, "caller"), FiniteMask()]
    return methods(applied(cached(family), ROUNDING[rounding]), how)


@lru_cache
def written(family: str, rounding: str) -> Path:
    """The methods' folder. Read only."""
    from edgec.backends.onnx.folder import lower

    folder = Path(_FOLDERS.name) / f"{family}, {rounding}"
    lower(programs(family, rounding), folder, lambda name, done, total: None)
    return folder


@pytest.mark.parametrize(
    ("family", "rounding"),
    [
        pytest.param("llama", "float", marks=pytest.mark.slow),
        ("llama", "4-bit groups"),
        pytest.param("llama", "4-bit channels", marks=pytest.mark.slow),
        pytest.param("gemma3_text", "float", marks=pytest.mark.slow),
    ],
)
def test_the_folder_says_what_the_graphs_say(family: str, rounding: str) -> None:
    from edgec.backends.onnx.folder import execute

    wanted = run(programs(family, rounding))
    logits = run_static(execute(written(family, rounding)), tokens(), PLAN)
    # Float32 on both sides, other kernels: sums in another order.
    assert float((logits - wanted).abs().max()) <= 1e-5 * float(wanted.abs().max())


def test_methods_share_one_copy_of_each_constant_in_its_own_bits() -> None:
    from edgec.backends.onnx.folder import layout

    folder = written("llama", "4-bit groups")
    parts = layout(folder)
    assert parts.artifact_bytes == sum(path.stat().st_size for path in folder.iterdir())
    assert len({run.sha256 for run in parts.stored}) == len(parts.stored)
    packed = [run for run in parts.stored if run.dtype == "int4"]
    assert packed and all(run.bytes * 2 == torch.Size(run.shape).numel() for run in packed)


@pytest.fixture(scope="module")
def bundle(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("onnx") / "tiny.edgec"
    return edgec.export(tiny_folder, target="host", format="onnx", recipe="float", context=128, out=out)


def test_an_export_ends_with_the_executed_model(bundle: Path) -> None:
    manifest = open_bundle(bundle).manifest
    assert (manifest.format, manifest.runtime.name) == ("onnx", "onnxruntime")
    assert [method.name for method in manifest.methods] == ["prefill", "decode"]
    assert manifest.parity[-1].stage == "artifact" and manifest.parity[-1].top1_agreement == 1.0
    assert "ONNX Runtime" in manifest.parity[-1].note


def test_the_models_say_nothing_of_the_machine_that_made_them(bundle: Path) -> None:
    assert machine_paths(bundle / "model.onnx") == {}


def test_the_bundle_verifies_and_generates(bundle: Path) -> None:
    assert verify(bundle).passed
    assert len(edgec.load(bundle).generate([3, 4, 5], max_new_tokens=4).tokens) == 4


def test_rows_by_positions_are_read_by_indices_of_64_bits_and_masks_stay_masks() -> None:
    class Rows(torch.nn.Module):
        def forward(self, table: torch.Tensor, places: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return table[places] + table[mask].sum()

    table, places = torch.arange(12.0).view(6, 2), torch.tensor([4, 1], dtype=torch.int32)
    mask = torch.tensor([True, False, True, False, False, True])
    captured = capture_module(Rows(), (table, places, mask))
    written = run_pass(captured, OnnxForm())
    given: list[Any] = [node.args[1] for node in nodes_of(written.graph, INDEX)]
    dtypes = [place.meta["val"].dtype for places in given for place in places]
    assert sorted(map(str, dtypes)) == ["torch.bool", "torch.int64"]
    assert torch.equal(written.graph(table, places, mask)[0], captured.graph(table, places, mask)[0])


class Biased(nn.Module):
    """Scores with a bias by distance, as MPNet and T5 compute it for every call."""

    def __init__(self) -> None:
        super().__init__()
        self.biases = nn.Parameter(torch.randn(9, generator=torch.Generator().manual_seed(0)))

    def forward(self, scores: Tensor) -> Tensor:
        places = torch.arange(SIDE)
        apart = (places[None] - places[:, None]).clamp(-4, 4) + 4
        return scores + self.biases[apart]


def test_tables_of_positions_are_computed_and_not_stored(tmp_path: Path) -> None:
    from edgec.backends.onnx.folder import layout, lower
    from edgec.backends.onnx.methods import open_function

    scores = torch.zeros(1, SIDE, SIDE)
    program = capture_module(Biased(), (scores,), "biased", ("scores",))
    lower({"main": program}, tmp_path / "x.onnx", lambda name, done, total: None)
    # Three tables of indices would take 98 KB.
    assert sum(run.bytes for run in layout(tmp_path / "x.onnx").stored) < 4096
    (made,) = open_function(tmp_path / "x.onnx", None)([scores])
    assert torch.equal(made, program.graph(scores)[0])


class Twice(nn.Module):
    """An input that is an output, and two outputs that are equal: as hidden states, and keys that layers share."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return x * 2, x, x + 1, x * 2, x + 1


def test_inputs_and_outputs_keep_their_names(tmp_path: Path) -> None:
    from edgec.backends.onnx.folder import lower
    from edgec.backends.onnx.methods import open_function, open_sessions

    x = torch.randn(2, 3)
    program = capture_module(Twice(), (x,), "twice", ("x",))
    lower({"main": program}, tmp_path / "x.onnx", lambda name, done, total: None)
    (session,) = open_sessions(tmp_path / "x.onnx", ("main",)).values()
    assert [each.name for each in session.get_inputs()] == ["x"]
    assert [each.name for each in session.get_outputs()] == [each.name for each in program.interface.outputs]
    for made, wanted in zip(open_function(tmp_path / "x.onnx", None)([x]), Twice()(x), strict=True):
        assert torch.equal(made, wanted)
