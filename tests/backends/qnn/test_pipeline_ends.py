"""The models before and after a method, which onnxruntime-genai's decoder pipeline executes on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from edgec.backends.qnn.pipeline_ends import PipelineForm, begin_model, end_model, written_name
from edgec.bundle.entry_points import StateInfo

CONTEXT, CHUNK = 6, 4
LOGITS = {"logits_0": 3, "logits_1": 2}
PADDING = 5


def cache(name: str, groups: int = 2) -> StateInfo:
    shape = [1, groups, CONTEXT, 3]
    role = name.partition("_")[0]
    return StateInfo(name=name, layer=0, role=role, dtype="uint8", shape=shape, layout="full", slots=CONTEXT, bytes=48)


# Layers may have different numbers of heads.
CACHES = [cache("key_cache_0"), cache("value_cache_0"), cache("key_cache_1", 1), cache("value_cache_1", 1)]
FORM = PipelineForm(CACHES, LOGITS)


def session(model: bytes) -> Any:
    runtime = pytest.importorskip("onnxruntime")
    return runtime.InferenceSession(model, providers=["CPUExecutionProvider"])


def called(model: bytes, given: Mapping[str, Any]) -> dict[str, Any]:
    opened = session(model)
    names = [each.name for each in opened.get_outputs()]
    return dict(zip(names, opened.run(names, dict(given)), strict=True))


def pasts() -> dict[str, Any]:
    random = np.random.default_rng(0)
    return {each.name: random.integers(1, 256, each.shape).astype(np.uint8) for each in CACHES}


def lengths(past: int) -> dict[str, Any]:
    return {
        "past_sequence_length": np.array([[past]], np.int32),
        "total_sequence_length": np.array([CONTEXT], np.int32),
    }


@pytest.mark.parametrize(
    ("ids", "past", "tokens", "start", "last"),
    [
        ([1, 2, 3, 4], 3, [1, 2, 3, 4], 0, 3),
        # The second window of a prompt of six tokens: it ends at place 7 as onnxruntime-genai counts.
        ([1, 2, PADDING, PADDING], 7, [1, 2, 4, 4], 4, 1),
        # The first token after that prompt.
        ([3], 6, [3], 6, 0),
    ],
)
def test_a_call_is_what_the_method_takes(ids: list[int], past: int, tokens: list[int], start: int, last: int) -> None:
    found = called(begin_model(FORM, len(ids)), {"input_ids": np.array([ids], np.int32), **lengths(past)})
    assert (found["tokens"].tolist(), found["start"].tolist(), found["last"].tolist()) == ([tokens], [start], [last])


def ended(tokens: int, start: int, last: int, held: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    random = np.random.default_rng(1)
    new = {
        f"new_{each.name}": random.integers(0, 256, [1, each.shape[1], tokens, 3]).astype(np.uint8) for each in CACHES
    }
    logits = {name: np.arange(width, dtype=np.float32).reshape(1, 1, -1) for name, width in LOGITS.items()}
    places = {"start": np.array([start], np.int32), "last": np.array([last], np.int32)}
    return called(end_model(FORM, tokens), {**places, **held, **new, **logits}), new


@pytest.mark.parametrize(("tokens", "start"), [(CHUNK, 0), (CHUNK, 2), (1, 5)])
def test_new_rows_go_to_their_places_and_the_others_stay(tokens: int, start: int) -> None:
    held = pasts()
    found, new = ended(tokens, start, tokens - 1, held)
    for each in CACHES:
        wanted = held[each.name].copy()
        wanted[:, :, start : start + tokens] = new[f"new_{each.name}"]
        assert np.array_equal(found[written_name(each)], wanted)


def test_logits_lie_side_by_side_and_padding_is_never_chosen() -> None:
    found, _ = ended(1, 0, 0, pasts())
    assert found["next_logits"].shape == (1, 1, PADDING + 1)
    assert found["next_logits"][0, 0, :PADDING].tolist() == [0, 1, 2, 0, 1]
    assert found["next_logits"][0, 0, PADDING] < -1e29


def test_padding_behind_the_context_is_dropped_and_a_token_there_fails() -> None:
    held = pasts()
    found, new = ended(CHUNK, CONTEXT - 2, 0, held)
    for each in CACHES:
        after = found[written_name(each)]
        assert np.array_equal(after[:, :, : CONTEXT - 2], held[each.name][:, :, : CONTEXT - 2])
        assert np.array_equal(after[:, :, CONTEXT - 2], new[f"new_{each.name}"][:, :, 0])
    with pytest.raises(Exception, match="indices element out of data bounds"):
        ended(CHUNK, CONTEXT - 2, CHUNK - 1, held)


def test_rows_are_written_into_the_buffer_that_was_read() -> None:
    """onnxruntime-genai gives one buffer as input and output."""
    runtime = pytest.importorskip("onnxruntime")
    held, opened = pasts(), session(end_model(FORM, 1))
    wanted, new = ended(1, 3, 0, held)
    binding = opened.io_binding()
    buffers = {written_name(each): runtime.OrtValue.ortvalue_from_numpy(held[each.name]) for each in CACHES}
    for each in CACHES:
        binding.bind_ortvalue_input(each.name, buffers[written_name(each)])
        binding.bind_ortvalue_output(written_name(each), buffers[written_name(each)])
    logits = {name: np.zeros((1, 1, width), np.float32) for name, width in LOGITS.items()}
    small = {"start": np.array([3], np.int32), "last": np.array([0], np.int32)}
    for name, array in {**new, **logits, **small}.items():
        binding.bind_cpu_input(name, array)
    binding.bind_output("next_logits")
    opened.run_with_iobinding(binding)
    assert all(np.array_equal(buffer.numpy(), wanted[after]) for after, buffer in buffers.items())
