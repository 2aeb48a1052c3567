"""Static methods behind the runtime's protocol: padding, several rows, and the end of the states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from edgec.bundle.entry_points import Limits
from edgec.runtime_py.engines.static_decoder import StaticDecoder
from tests.example_counts import examples

VOCABULARY, CHUNK = 7, 4


@dataclass
class Remembering:
    """A toy whose logits depend on every token up to the row's, and which notices what it is called with."""

    chunk: int = CHUNK
    slots: int = 12
    calls: list[tuple[str, int, int]] = field(default_factory=list)
    held: dict[int, int] = field(default_factory=dict)

    def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
        tokens, start, last = inputs["tokens"][0].tolist(), int(inputs["start"]), int(inputs["last"])
        assert all(tensor.dtype == torch.int32 for tensor in inputs.values())
        assert len(tokens) == {"prefill": self.chunk, "decode": 1}[method]
        assert start + len(tokens) <= self.slots
        self.calls.append((method, start, last))
        self.held.update({start + i: token for i, token in enumerate(tokens)})
        return expected_row([self.held[p] for p in range(start + last + 1)])


def expected_row(tokens: Sequence[int]) -> Tensor:
    seen = torch.zeros(VOCABULARY)
    for position, token in enumerate(tokens):
        seen[token] += 1 + position / 16
    return seen


def fed(decoder: StaticDecoder, tokens: Sequence[int], start: int, rows: Sequence[int]) -> np.ndarray:
    positions = np.arange(start, start + len(tokens))
    (logits,) = decoder.run([np.array([tokens]), positions, np.array(rows)])
    return logits


def _decoder(toy: Remembering, context: int = 10) -> StaticDecoder:
    return StaticDecoder(toy, Limits(context=context, prefill_chunk=toy.chunk, logit_rows=1))


def test_short_chunks_are_padded_and_single_tokens_decoded() -> None:
    toy = Remembering()
    decoder = _decoder(toy)
    logits = fed(decoder, [1, 2, 3], 0, [2])
    assert logits.shape == (1, 1, VOCABULARY)
    assert logits.dtype == np.float32
    fed(decoder, [4], 3, [0])
    assert toy.calls == [("prefill", 0, 2), ("decode", 3, 0)]


def test_every_row_costs_a_call() -> None:
    toy = Remembering()
    logits = fed(_decoder(toy), [1, 2, 3, 4], 0, [3, 0])
    assert toy.calls == [("prefill", 0, 3), ("prefill", 0, 0)]
    assert np.allclose(logits[0, 0], expected_row([1, 2, 3, 4]))
    assert np.allclose(logits[0, 1], expected_row([1]))


@pytest.mark.parametrize(
    ("rows", "calls"), [([3], [("prefill", 0, 3)]), ([1, 3], [("decode", i, 0) for i in range(4)])]
)
def test_a_recurrence_takes_each_token_in_once(rows: list[int], calls: list[tuple[str, int, int]]) -> None:
    toy = Remembering()
    decoder = StaticDecoder(toy, Limits(context=10, prefill_chunk=CHUNK, logit_rows=1), recurrent=True)
    logits = fed(decoder, [1, 2, 3, 4], 0, rows)
    assert toy.calls == calls
    for actual, row in zip(logits[0], rows, strict=True):
        assert np.allclose(actual, expected_row([1, 2, 3, 4][: row + 1]))


def test_rows_in_the_place_of_tokens_are_padded_and_cut_with_them() -> None:
    given: list[tuple[str, Mapping[str, Tensor]]] = []

    class WithVision(Remembering):
        def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
            given.append((method, {name: inputs[name] for name in ("features", "seen")}))
            return super().call(method, {name: inputs[name] for name in ("tokens", "start", "last")})

    toy, limits = WithVision(held=dict.fromkeys(range(12), 0)), Limits(context=10, prefill_chunk=CHUNK, logit_rows=1)
    decoder = StaticDecoder(toy, limits, row_inputs=["features", "seen"])
    features = np.arange(6, dtype=np.float32).reshape(1, 3, 2)
    rows = [features, np.array([[[True], [False], [True]]])]
    for start in (0, 9):
        decoder.run([np.array([[1, 2, 3]]), np.arange(start, start + 3), *rows, np.array([2])])
    assert [method for method, _ in given] == ["prefill", "decode", "decode", "decode"]
    whole, first, _, last = (inputs for _, inputs in given)
    assert whole["features"].tolist() == [[[0, 1], [2, 3], [4, 5], [0, 0]]] and whole["seen"].shape == (1, CHUNK, 1)
    assert first["features"].tolist() == [[[0, 1]]] and last["seen"].tolist() == [[[1.0]]]


def test_what_is_known_of_a_source_is_given_to_each_call_as_it_is() -> None:
    given: list[tuple[str, Mapping[str, Tensor]]] = []

    class Knowing(Remembering):
        def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
            own = {name: inputs[name] for name in ("tokens", "start", "last")}
            given.append((method, {name: value for name, value in inputs.items() if name not in own}))
            return super().call(method, own)

    limits, names = Limits(context=10, prefill_chunk=CHUNK, logit_rows=1), ["cross_key_0", "source_used"]
    decoder = StaticDecoder(Knowing(), limits, memory_inputs=names)
    keys, used = np.arange(12, dtype=np.float16).reshape(1, 2, 3, 2), np.array([[1, 1, 0]], np.float32)
    for tokens, start in (([1, 2, 3], 0), ([4], 3)):
        decoder.run([np.array([tokens]), np.arange(start, start + len(tokens)), keys, used, np.array([0])])
    assert [method for method, _ in given] == ["prefill", "decode"]
    for _, known in given:
        assert list(known) == names
        assert np.array_equal(known["cross_key_0"].numpy(), keys) and np.array_equal(known["source_used"].numpy(), used)


def test_padding_never_leaves_the_states() -> None:
    toy = Remembering()
    decoder = _decoder(toy)
    for start in (0, 4):
        fed(decoder, [1, 2, 3, 4], start, [3])
    logits = fed(decoder, [5, 6], 8, [1])
    assert toy.calls[-1] == ("prefill", 8, 1)
    fed(decoder, [1], 9, [0])
    fed(decoder, [5, 6], 10, [0, 1])
    assert [call[0] for call in toy.calls[-2:]] == ["decode", "decode"]
    assert np.allclose(logits[0, 0], expected_row([1, 2, 3, 4, 1, 2, 3, 4, 5, 6]))


@given(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=12), st.data())
@settings(max_examples=examples(60), deadline=None)
def test_any_cut_gives_the_same_rows(tokens: list[int], data: st.DataObject) -> None:
    toy = Remembering()
    decoder, start = _decoder(toy, 12), 0
    while start < len(tokens):
        size = data.draw(st.integers(1, min(CHUNK, len(tokens) - start)))
        rows = data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=3))
        logits = fed(decoder, tokens[start : start + size], start, rows)
        for actual, row in zip(logits[0], rows, strict=True):
            assert np.allclose(actual, expected_row(tokens[: start + row + 1]))
        start += size


@pytest.mark.parametrize("rewound", [0, 1, 3])
def test_rewinding_forgets_what_lay_behind(rewound: int) -> None:
    toy = Remembering()
    decoder = _decoder(toy)
    fed(decoder, [1, 2, 3, 4], 0, [3])
    logits = fed(decoder, [6], rewound, [0])
    assert np.allclose(logits[0, 0], expected_row([*[1, 2, 3, 4][:rewound], 6]))


def test_the_functions_under_an_adapter_are_called_by_their_names() -> None:
    called: list[str] = []

    class Named(Remembering):
        def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
            called.append(method)
            return super().call(method.removesuffix("_pirate"), inputs)

    decoder = _decoder(Named())
    for adapter in ("", "pirate", ""):
        decoder.use_functions(adapter)
        fed(decoder, [1, 2], 0, [1])
        fed(decoder, [3], 2, [0])
    assert called == ["prefill", "decode", "prefill_pirate", "decode_pirate", "prefill", "decode"]
