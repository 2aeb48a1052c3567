"""A package in the layout of swift-transformers, read and called as its ``LanguageModel`` does; faults are caught.

``Reader`` follows ``Sources/Models/LanguageModel.swift`` of huggingface/swift-transformers (eec09bdf) line by line:
``kvCacheAvailability``, ``contextRange`` and ``predictNextTokenScores`` of ``LanguageModelWithStatefulKVCache``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from edgec.backends.coreml import mlpackage
from edgec.backends.coreml.interpreter import load_package
from edgec.backends.coreml.interpreter.proto import read_spec
from edgec.errors import BudgetError, InputError
from edgec.exporter.parity import ladder
from edgec.exporter.parity.execution import run_program
from edgec.exporter.parity.ladder import HALF_LOWERING, Stage, lowering_rung
from edgec.ir.call_plan import Call
from edgec.ir.stateful_call import STATEFUL, StatefulMethods
from edgec.ir.static_methods import run_static
from tests.passes.stateful_methods import CALLS, stateful, wanted
from tests.passes.static_methods import CONTEXT, captured, tokens

pytestmark = pytest.mark.long
LAYOUT = "swift-transformers"


def lowered(name: str, folder: Path) -> Path:
    path = folder / "model.mlpackage"
    mlpackage.lower({"main": stateful(name, LAYOUT)}, path, lambda step, done, total: None)
    return path


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lowered("qwen3", tmp_path_factory.mktemp("stateful"))


class Reader:
    """What ``LanguageModel`` does with a package."""

    def __init__(self, path: Path) -> None:
        described = read_spec(path).description
        states = {state.name for state in described.state}
        assert {"keyCache", "valueCache"} <= states  # .statefulKVCache
        (ids,) = (value for value in described.input if value.name == "inputIds")
        (size,) = list(ids.type.multiArrayType.shapeRange.sizeRanges)[-1:]
        # NSRange(location, length): the constructor ends the app unless length - location > 1.
        assert (size.upperBound - size.lowerBound) - size.lowerBound > 1
        self.masked = "causalMask" in {value.name for value in described.input}
        self.function = load_package(path).functions["main"]
        self.state = self.function.fresh_state()
        self.extending = False

    def next_token_scores(self, text: Sequence[int]) -> Tensor:
        ids = list(text[-1:] if self.extending else text)
        self.extending = True
        inputs = {"inputIds": torch.tensor([ids], dtype=torch.int32)}
        if self.masked:
            inputs["causalMask"] = torch.zeros(1, 1, 1, len(text) + 1, dtype=torch.float16)
        scores = self.function.run(inputs, self.state)["logits"]
        assert scores.dim() == 3
        return scores[0, len(ids) - 1]


def greedy(next_scores: Callable[[list[int]], Tensor], prompt: Sequence[int], count: int) -> list[int]:
    text = list(prompt)
    for _ in range(count):
        text.append(int(next_scores(text).argmax()))
    return text[len(prompt) :]


def graph_scores(name: str) -> Callable[[list[int]], Tensor]:
    return lambda text: run_program(captured(name), text, [Call(0, len(text), 1)])[0]


def test_language_model_writes_the_words_of_the_captured_program(package: Path) -> None:
    prompt = tokens(11)
    assert greedy(Reader(package).next_token_scores, prompt, 12) == greedy(graph_scores("qwen3"), prompt, 12)


def test_it_reads_a_prompt_of_one_token_and_the_whole_context(package: Path) -> None:
    text = tokens(CONTEXT)
    reader, whole = Reader(package), Reader(package)
    assert int(reader.next_token_scores(text[:1]).argmax()) == int(graph_scores("qwen3")(text[:1]).argmax())
    scores = run_program(captured("qwen3"), text, [Call(0, CONTEXT, 1)])[0]
    assert float((whole.next_token_scores(text).float() - scores).abs().max()) < 0.03 * float(scores.abs().max())
    with pytest.raises(InputError, match="E422"):
        whole.next_token_scores([*text, 1])


def rung_of(name: str, path: Path) -> Any:
    methods = mlpackage.execute(path)
    assert isinstance(methods, StatefulMethods)
    methods.chunk = 1
    got = run_static(methods, tokens(CONTEXT), CALLS)
    return lowering_rung(Stage("graph", wanted(name)), Stage("artifact", got), HALF_LOWERING, rounded=True)


@pytest.mark.slow
def test_windows_and_capped_logits_keep_their_numbers(tmp_path: Path) -> None:
    ladder.gate([rung_of("gemma3_text", lowered("gemma3_text", tmp_path))])


def test_padding_has_no_place_behind_the_last_position(package: Path) -> None:
    methods = mlpackage.execute(package)
    assert isinstance(methods, StatefulMethods) and methods.chunk == 64
    plan = (Call(0, 40, 1), Call(40, 20, 1), *(Call(60 + i, 1, 1) for i in range(4)))
    got, reference = (run_static(methods, tokens(CONTEXT), plan), run_program(captured("qwen3"), tokens(CONTEXT), plan))
    assert float((got - reference).abs().max()) < 0.03 * float(reference.abs().max())


def _one_off(convert: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Positions as if the mask were as long as the text, and not one token longer."""

    def converted(context: Any, node: Any) -> None:
        from coremltools.converters.mil import Builder as mb

        convert(context, node)
        context.add(
            mb.maximum(x=mb.sub(x=context[node.name], y=1), y=0, name=f"{node.name}_early"),
            torch_name=node.name,
            override=True,
        )

    return converted


def _other_heads(convert: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Keys whose heads were written in the order of the values' axes: two heads change places."""

    def converted(context: Any, node: Any) -> None:
        from coremltools.converters.mil import Builder as mb

        rows = context[node.inputs[1]]
        if "key" in str(node.inputs[0]).lower():
            context.add(
                mb.reverse(x=rows, axes=[1], name=f"{rows.name}_turned"), torch_name=node.inputs[1], override=True
            )
        convert(context, node)

    return converted


@pytest.mark.slow
@pytest.mark.parametrize(("name", "fault"), [("call_positions", _one_off), ("stacked_rows", _other_heads)])
def test_a_fault_of_the_converter_ends_the_export(
    name: str, fault: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgec.backends.coreml import converters

    monkeypatch.setattr(converters, name, fault(getattr(converters, name)))
    with pytest.raises(BudgetError, match="E201"):
        ladder.gate([rung_of("short llama", lowered("short llama", tmp_path))])


def test_swapped_caches_end_the_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = StatefulMethods.call

    def swapped(self: StatefulMethods, method: str, inputs: Any) -> Tensor:
        result = plain(self, method, inputs)
        self.states = {"keyCache": self.states["valueCache"], "valueCache": self.states["keyCache"]}
        return result

    path = lowered("short llama", tmp_path)
    ladder.gate([rung_of("short llama", path)])
    monkeypatch.setattr(StatefulMethods, "call", swapped)
    with pytest.raises(BudgetError, match="E201"):
        ladder.gate([rung_of("short llama", path)])


def test_the_constraint_of_the_reader_is_that_of_the_names() -> None:
    assert STATEFUL[LAYOUT].least == 4
