"""A model in the layout of coreai-models, executed by Apple's runtime through its engines' inputs; faults are caught.

``sequential`` follows ``processTokenBatch`` of ``CoreAISequentialEngine.swift`` in apple/coreai-models (86b363dc):
inputs, output and states by their order, and ``position_ids`` with every position so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from edgec.backends.coreai import aimodel
from edgec.errors import BudgetError
from edgec.exporter.parity import ladder
from edgec.exporter.parity.execution import run_program
from edgec.exporter.parity.ladder import HALF_LOWERING, Stage, lowering_rung
from edgec.ir.call_plan import Call
from edgec.ir.stateful_call import StatefulMethods
from edgec.ir.static_methods import run_static
from tests.passes.stateful_methods import stateful
from tests.passes.static_methods import CONTEXT, captured, tokens

pytest.importorskip("coreai_torch")
pytestmark = pytest.mark.long
LAYOUT = "coreai-models"
# Apple's runtime compiles the model anew for every shape, so that few calls say it.
PLAN = (Call(0, 21, 1), *(Call(21 + i, 1, 1) for i in range(3)), Call(24, 38, 1), Call(62, 1, 1), Call(63, 1, 1))


def lowered(name: str, folder: Path) -> Path:
    path = folder / "model.aimodel"
    aimodel.lower({"main": stateful(name, LAYOUT)}, path, lambda step, done, total: None)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lowered("qwen3", tmp_path_factory.mktemp("stateful"))


def methods(path: Path) -> StatefulMethods:
    opened = aimodel.execute(path)
    assert isinstance(opened, StatefulMethods)
    opened.chunk = 1
    return opened


def sequential(path: Path, prompt: Sequence[int]) -> Iterator[int]:
    function = methods(path).function
    ids, positions = (each.name for each in function.inputs)  # type: ignore[attr-defined]
    logits = function.outputs[0].name  # type: ignore[attr-defined]
    assert 2 <= len(function.states) <= 4  # type: ignore[attr-defined]
    assert function.outputs[0].dtype is torch.float16  # type: ignore[attr-defined]
    state, batch, processed = function.fresh_state(), list(prompt), 0
    while True:
        total = processed + len(batch)
        given = {ids: torch.tensor([batch]), positions: torch.arange(total)[None]}
        scores = function.run(given, state)[logits]
        assert tuple(scores.shape[:2]) == (1, len(batch))
        processed, batch = total, [int(scores[0, -1].argmax())]
        yield batch[0]


def test_the_engine_writes_the_words_of_the_captured_program(model: Path) -> None:
    text = tokens(9)
    words = sequential(model, text)
    for _ in range(4):
        text.append(int(run_program(captured("qwen3"), text, [Call(0, len(text), 1)])[0].argmax()))
        assert next(words) == text[-1]


def rung_of(name: str, opened: StatefulMethods) -> Any:
    got = run_static(opened, tokens(CONTEXT), PLAN)
    reference = run_program(captured(name), tokens(CONTEXT), PLAN)
    return lowering_rung(Stage("graph", reference), Stage("artifact", got), HALF_LOWERING, rounded=True)


@pytest.mark.slow
def test_windows_and_capped_logits_keep_their_numbers(tmp_path: Path) -> None:
    ladder.gate([rung_of("gemma3_text", methods(lowered("gemma3_text", tmp_path)))])


def _swapped(self: StatefulMethods) -> None:
    self.states = {"keyCache": self.states["valueCache"], "valueCache": self.states["keyCache"]}


def _other_heads(self: StatefulMethods) -> None:
    self.states = {**self.states, "keyCache": self.states["keyCache"].flip(2).contiguous()}


@pytest.mark.slow
@pytest.mark.parametrize("spoil", [_swapped, _other_heads])
def test_spoilt_caches_end_the_export(
    spoil: Callable[[StatefulMethods], None], model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = StatefulMethods.call

    def spoilt(self: StatefulMethods, method: str, inputs: Any) -> Tensor:
        result = plain(self, method, inputs)
        spoil(self)
        return result

    ladder.gate([rung_of("qwen3", methods(model))])
    monkeypatch.setattr(StatefulMethods, "call", spoilt)
    with pytest.raises(BudgetError, match="E201"):
        ladder.gate([rung_of("qwen3", methods(model))])
