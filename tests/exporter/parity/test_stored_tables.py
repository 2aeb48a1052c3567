"""Every rounded matrix of a graph is found in the artifact's files; one that is another is named."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch

from edgec.backends.coreml.compressed_ops import register
from edgec.errors import BudgetError
from edgec.exporter.parity.stored_tables import check_stored_tables
from edgec.ir.program import Program
from edgec.passes.contract import clone
from tests.backends.compressed_layers import FORMS, Form, layer
from tests.backends.onnx.test_onnx import programs, written

_FOLDERS = TemporaryDirectory()
KINDS = {form.name: form for form in FORMS if form.name in ("lut4", "lut6", "int4 channel", "int8 channel")}


@lru_cache(maxsize=4)
def package(form: Form) -> Path:
    """A Core ML package of one layer. Read only."""
    import coremltools as ct

    program, given = layer(form)
    register()
    made = ct.convert(
        torch.export.export(program.graph, (given,), strict=False).run_decompositions({}),
        minimum_deployment_target=ct.target.iOS18,
        compute_precision=ct.precision.FLOAT16,
        skip_model_load=True,
    )
    path = Path(_FOLDERS.name) / f"{form.name}.mlpackage"
    made.save(path)
    return path


def other(program: Program, place: tuple[int, ...]) -> Program:
    """The program with one integer of a matrix, or one value of its tables or scales, changed."""
    graph = clone(program.graph)
    held = dict(graph.named_buffers())
    kind = torch.is_floating_point if place == (-1,) else lambda value: not value.is_floating_point()
    name, old = next((name, value) for name, value in held.items() if kind(value) and value.dim() > 1)
    new = old.clone()
    new.view(-1)[len(new.view(-1)) // 2] = 1.5 if new.is_floating_point() else 1 - new.view(-1)[new.numel() // 2] % 2
    owner, _, leaf = name.rpartition(".")
    setattr(graph.get_submodule(owner), leaf, new)
    return Program(graph, program.interface, program.spec, program.history)


@pytest.mark.sweep(4)
@pytest.mark.long
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("place", [(0,), (-1,)], ids=["an integer", "a scale or table"])
def test_a_matrix_is_found_in_a_package_and_another_is_not(name: str, place: tuple[int, ...]) -> None:
    program, path = layer(KINDS[name])[0], package(KINDS[name])
    assert check_stored_tables(path, {"main": program}) == 1
    with pytest.raises(BudgetError) as caught:
        check_stored_tables(path, {"main": other(program, place)})
    assert caught.value.code == "E840"


@pytest.mark.sweep(1)
@pytest.mark.long
@pytest.mark.parametrize("rounding", ["4-bit groups", "4-bit channels"])
def test_matrices_are_found_as_onnx_turns_them(rounding: str) -> None:
    graphs, path = programs("llama", rounding), written("llama", rounding)
    assert check_stored_tables(path, graphs) >= 7
    graph = clone(graphs["decode"].graph)
    name, old = next(each for each in graph.named_buffers() if each[1].dtype == torch.int8 and "v_proj" in each[0])
    owner, _, leaf = name.rpartition(".")
    setattr(graph.get_submodule(owner), leaf, old.roll(1, 0))
    with pytest.raises(BudgetError, match="v_proj"):
        check_stored_tables(path, {"decode": Program(graph, graphs["decode"].interface, None)})
