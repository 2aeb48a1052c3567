"""How static methods are fed: whole chunks, one that is not full, then single tokens."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from edgec.errors import InputError
from edgec.exporter.parity.probe import make_probe
from edgec.ir.call_plan import static_plan
from edgec.ir.static_methods import join_logits, methods_step, run_static, write_states


class Recorded:
    """Methods that remember what they were given; the logits are the token of row ``last``."""

    chunk = 8

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int], int, int]] = []

    def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
        tokens = inputs["tokens"][0].tolist()
        self.calls.append((method, tokens, int(inputs["start"]), int(inputs["last"])))
        return torch.tensor([float(tokens[int(inputs["last"])])])


def test_a_plan_has_three_chunks_of_which_the_last_is_padded_and_32_tokens() -> None:
    plan = static_plan(256, 64)
    assert [call.size for call in plan] == [64, 64, 40] + [1] * 32
    assert [call.start for call in plan[:4]] == [0, 64, 128, 168]


@pytest.mark.parametrize("length", [1, 2, 7, 8, 15, 20, 40])
def test_a_plan_never_writes_behind_the_slots(length: int) -> None:
    slots = -(-length // 8) * 8
    for call in static_plan(length, 8):
        assert call.start + (8 if call.size > 1 else 1) <= slots
        assert call.start + call.size <= length


@pytest.mark.parametrize("length", [2, 3, 9, 40, 64, 65, 71, 72])
def test_a_plan_executes_prefill_however_short_it_is(length: int) -> None:
    chunk = min(64, length)
    calls = static_plan(length, chunk)
    sizes = [call.size for call in calls]
    whole = [call for call in calls if call.size == chunk]
    assert whole == [calls[-1]] and whole[0].start == 0
    assert sizes[0] > 1
    assert sizes[1:-1] == [1] * (len(sizes) - 2)
    assert len(sizes) > 1 or length == 2


def test_padding_lies_behind_the_last_row() -> None:
    methods = Recorded()
    logits = run_static(methods, list(range(100, 140)), static_plan(40, 8))
    padded = methods.calls[2]
    assert padded == ("prefill", [116, 117, 118, 119, 120, 0, 0, 0], 16, 4)
    assert logits[2].item() == 120
    assert methods.calls[3] == ("decode", [121], 21, 0)


def test_a_short_context_still_has_a_padded_chunk_and_single_tokens() -> None:
    assert [call.size for call in static_plan(128, 64)] == [40] + [1] * 32 + [64]


def test_tokens_at_any_position_become_calls() -> None:
    methods = Recorded()
    step = methods_step(methods)
    logits = step(torch.tensor([[7, 8, 9]]), torch.tensor([4, 5, 6]), torch.tensor([2]))
    assert methods.calls == [("prefill", [7, 8, 9, 0, 0, 0, 0, 0], 4, 2)]
    assert logits.shape == (1, 1, 1)
    assert logits.item() == 9


def test_new_rows_go_to_their_slots_and_logits_come_together() -> None:
    states = {"key_cache_0": torch.zeros(1, 1, 6, 2), "recurrent_state_1": torch.zeros(1, 1, 2, 2)}
    outputs = {
        "logits_0": torch.ones(1, 1, 2),
        "logits_1": torch.zeros(1, 1, 1),
        "new_key_cache_0": torch.ones(1, 1, 2, 2),
        "next_recurrent_state_1": 5 * torch.ones(1, 1, 2, 2),
        "next_hidden": torch.ones(1, 2, 3),
    }
    write_states(states, outputs, 3)
    assert states["key_cache_0"][0, 0, :, 0].tolist() == [0, 0, 0, 1, 1, 0]
    assert (states["recurrent_state_1"] == 5).all() and set(states) == {"key_cache_0", "recurrent_state_1"}
    assert join_logits(outputs).tolist() == [1, 1, 0]


class Words:
    """A tokenizer with a token for each word."""

    def __call__(self, text: str, **_: object) -> dict[str, list[int]]:
        return {"input_ids": [len(word) for word in text.split()]}


def test_a_text_too_short_for_both_methods_is_refused() -> None:
    with pytest.raises(InputError, match="E409"):
        make_probe(Words(), 50, 128, 64, 1, "one two", static=True)
    probe = make_probe(Words(), 50, 128, 64, 1, "a b c d e f g h i j", static=True)
    assert [call.size for call in probe.plan] == [2] + [1] * 8 + [10]
    with pytest.raises(InputError, match="E409"):
        make_probe(Words(), 50, 128, 64, 1, "one two")


@pytest.mark.parametrize("window", [100, 130, 1000])
def test_single_tokens_come_after_the_end_of_a_window(window: int) -> None:
    for chunk in (1, 64, 128):
        plan = make_probe(None, 50, 2048, chunk, 1, None, window=window, static=True).plan
        after = [call for call in plan if call.start >= window]
        assert sum(call.size == 1 for call in after) >= 8
        assert any(call.start < window < call.start + call.size or call.start == window for call in plan)
