"""Compressed weights through coreai-torch, executed by Apple's Core AI runtime."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from edgec.errors import InputError
from edgec.ir.lut_form import DEQUANTIZE_LUT
from edgec.ir.program import Program
from edgec.passes.contract import clone
from tests.backends.compressed_layers import FORMS, Form, layer, swept, wanted

pytest.importorskip("coreai_torch", reason="extra: coreai")

# float32 throughout
TOLERANCE = 2e-5


def _asset(program: Program, given: torch.Tensor, path: Path) -> Path:
    from coreai_torch import TorchConverter, get_decomp_table

    from edgec.backends.coreai.compressed_ops import use_coreai_forms

    graph = clone(program.graph)
    use_coreai_forms(graph)
    exported = torch.export.export(graph, (given,), strict=False).run_decompositions(get_decomp_table())
    TorchConverter().add_exported_program(exported).to_coreai().save_asset(path)
    return path


def _executed(path: Path, given: torch.Tensor) -> torch.Tensor:
    from edgec.backends.coreai.execute import load_model

    (function,) = load_model(path).functions.values()
    (feature,) = function.inputs
    (result,) = function.run({feature.name: given}).values()
    return result


@pytest.mark.sweep(2)
@pytest.mark.long
@pytest.mark.parametrize("form", swept(form for form in FORMS if form.name != "lut3"))
def test_an_asset_computes_the_graphs_numbers(form: Form, tmp_path: Path) -> None:
    program, given = layer(form)
    asset = _asset(program, given, tmp_path / "layer.aimodel")
    torch.testing.assert_close(_executed(asset, given), wanted(program, given), atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.long
def test_the_programs_own_graph_is_left_alone(tmp_path: Path) -> None:
    program, given = layer(FORMS[3])
    before = [str(node.target) for node in program.graph.graph.nodes]
    _asset(program, given, tmp_path / "layer.aimodel")
    assert [str(node.target) for node in program.graph.graph.nodes] == before
    assert any(node.target is DEQUANTIZE_LUT for node in program.graph.graph.nodes)


def test_a_width_without_a_form_is_refused(tmp_path: Path) -> None:
    program, given = layer(next(form for form in FORMS if form.name == "lut3"))
    with pytest.raises(InputError) as caught:
        _asset(program, given, tmp_path / "layer.aimodel")
    assert caught.value.code == "E441" and "8 entries" in caught.value.what
