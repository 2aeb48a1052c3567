"""LSTM and GRU layers as loops of ExecuTorch's own, executed by its runtime beside the modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edgec.backends.cpu.rewrites import looped_layers
from edgec.backends.cpu.static_lowering import StaticLowered, lower_static
from edgec.exporter.capture.module import capture_module
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.recipe import for_backend, with_standard_kernels
from edgec.exporter.stages.module_orders import module_passes
from edgec.passes.contract import run_passes
from edgec.runtime_py.engines.open_artifact import TorchMethod

STEPS = 40


class _Recurrent(nn.Module):
    """A layer with its states as inputs and outputs."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU], width: int = 8, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = kind(5, width, **options)

    def forward(self, x: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        given: Any = states[0] if len(states) == 1 else states
        out, last = self.layer(x, given)
        return (out, *last) if isinstance(last, tuple) else (out, last)


def lowered(module: nn.Module, inputs: tuple[Tensor, ...], recipe: str = "float") -> StaticLowered:
    asked = with_standard_kernels(for_backend(load_recipe(recipe), "xnnpack"))
    return lower_static(run_passes(capture_module(module.eval(), inputs), module_passes(asked)))


def drawn(module: _Recurrent, seed: int, batch: int = 1) -> tuple[Tensor, ...]:
    given, layer = torch.Generator().manual_seed(seed), module.layer
    shape = (batch, STEPS, 5) if layer.batch_first else (STEPS, batch, 5)
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    states = 2 if isinstance(layer, nn.LSTM) else 1
    return (
        torch.randn(shape, generator=given),
        *(torch.randn(count, batch, layer.hidden_size, generator=given) for _ in range(states)),
    )


CASES: list[tuple[type[nn.LSTM] | type[nn.GRU], dict[str, Any], int]] = [
    (nn.LSTM, {"batch_first": True}, 1),
    (nn.GRU, {}, 1),
    (nn.LSTM, {"num_layers": 2, "bidirectional": True, "bias": False}, 2),
    (nn.GRU, {"num_layers": 2, "bidirectional": True, "batch_first": True}, 2),
]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "options", "batch"), CASES)
def test_a_loop_computes_the_layer_and_ends_as_it_began(
    kind: type[nn.LSTM] | type[nn.GRU], options: dict[str, Any], batch: int, tmp_path: Path
) -> None:
    module = _Recurrent(kind, **options)
    made = lowered(module, drawn(module, 0, batch))
    (file := tmp_path / "model.pte").write_bytes(made.artifact)
    method = TorchMethod(file)
    for seed in (1, 2):  # the counter of steps is 0 again
        inputs = drawn(module, seed, batch)
        with torch.no_grad():
            wanted = module(*inputs)
        for own, got in zip(wanted, method(inputs), strict=True):
            # Float sums in another order, handed from step to step.
            assert torch.allclose(own, got, rtol=1e-5, atol=1e-5)
    assert made.delegated_share() == 1.0


def called(artifact: bytes) -> set[str]:
    """The operators that a program calls, without those that are part of every runtime."""
    from executorch.exir._serialize._program import deserialize_pte_binary

    (plan,) = deserialize_pte_binary(artifact).program.execution_plan
    return {each.name for each in plan.operators if not each.name.startswith("executorch_prim")}


def test_an_artifact_asks_for_nothing_of_edgecs_and_holds_each_matrix_once() -> None:
    module = _Recurrent(nn.LSTM, width=64, bidirectional=True)
    made = lowered(module, drawn(module, 0))
    assert called(made.artifact) == {each.operator for each in made.outside}
    assert not any(each.operator.startswith("edgec") for each in made.outside)
    weights = sum(each.numel() * each.element_size() for each in module.parameters())
    # Programs and graphs are 30,000 bytes, whatever the width; a matrix of 65,536 once more would be seen.
    assert len(made.artifact) < weights + 40_000
    # In both directions four gates of 64 that read 5 inputs and 64 hidden values, in each step.
    assert made.delegated_macs == 2 * STEPS * 4 * 64 * (5 + 64)


def test_a_swapped_gate_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the comparison could not fail."""
    whole = looped_layers._gates
    monkeypatch.setattr(looped_layers, "_gates", lambda x, count: whole(x, count)[::-1])
    module = _Recurrent(nn.LSTM)
    (file := tmp_path / "model.pte").write_bytes(lowered(module, drawn(module, 0)).artifact)
    inputs = drawn(module, 1)
    with torch.no_grad():
        assert float((module(*inputs)[0] - TorchMethod(file)(inputs)[0]).abs().max()) > 0.05
