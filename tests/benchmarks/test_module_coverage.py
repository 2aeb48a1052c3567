"""The table of encoders and vision models says what the outcomes hold; a sample of types is exported and compared."""

from __future__ import annotations

import pytest
import torch

from benchmarks.coverage_parts.check import Outcome
from benchmarks.coverage_parts.check_module import MODULE_COLUMNS, check_module, difference, other_inputs
from benchmarks.coverage_parts.module_table import module_section
from benchmarks.coverage_parts.tiny_modules import module_model, module_types
from edgec.bundle.entry_points import MethodInfo, TensorInfo

# A mask that a table of relative positions makes, windows of an image, two encoders, a detector, points, features.
SAMPLE = ("deberta", "mpnet", "swin", "clip", "siglip", "detr", "sam", "whisper")
# Tables that code makes from ranges, indices among them; group norms and filters over sound.
PACKAGES = ("mpnet", "deberta-v2", "wav2vec2")
TEXT = MethodInfo(
    name="forward",
    inputs=[
        TensorInfo(name="input_ids", dtype="int64", shape=[1, "T"]),
        TensorInfo(name="attention_mask", dtype="int64", shape=[1, "T"]),
    ],
    outputs=[],
    dynamic={"T": (1, 16)},
)


def test_the_page_has_a_row_for_every_type_and_counts_each_part() -> None:
    known = [
        Outcome(kind="bert", result="equal"),
        Outcome(kind="siglip2", result="refused", code="E149", reason="a | b"),
        Outcome(kind="swin", result="failed", reason="Error"),
        Outcome(kind="bert", column="iphone mlpackage", result="equal"),
    ]
    text = module_section({(each.kind, each.column): each for each in known})
    assert "| text encoders | 23 | 1 equal |  |  | 1 equal |" in text
    assert "| 38 | 1 refused, 1 failed |  |  |  |" in text
    assert "| `bert` | `BertModel` | equal |  |  | equal |  |" in text
    assert "| `siglip2` | `Siglip2Model` | refused E149 |  |  |  | a / b |" in text
    assert all(f"| `{kind}` |" in text for kind in module_types())


def test_other_inputs_end_in_padding_and_have_the_length_asked_for() -> None:
    made = other_inputs(TEXT, 8)
    assert {name: tuple(value.shape) for name, value in made.items()} == {
        "input_ids": (1, 8),
        "attention_mask": (1, 8),
    }
    assert made["attention_mask"].tolist() == [[1] * 6 + [0] * 2]


def test_a_difference_counts_where_the_text_is_and_not_in_its_padding() -> None:
    right, mask = torch.ones(1, 4, 2), torch.tensor([[1, 1, 1, 0]])
    padded, wrong = right.clone(), right.clone()
    padded[0, 3], wrong[0, 2] = 9.0, 1.5
    assert difference(padded, right, mask) == 0
    assert difference(wrong, right, mask) == 0.5
    assert difference(right[:, :3], right, mask) == float("inf")


def test_a_tiny_model_is_tiny_and_the_same_each_time() -> None:
    one, two = (module_model("swin").state_dict() for _ in range(2))
    assert sum(value.numel() for value in one.values()) < 200_000
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAMPLE)
def test_a_sample_of_types_computes_what_transformers_computes(kind: str) -> None:
    found = check_module(kind)
    assert found.result == "equal", found


@pytest.mark.slow
@pytest.mark.parametrize("kind", PACKAGES)
def test_a_sample_of_types_is_the_same_as_a_core_ml_package(kind: str) -> None:
    found = check_module(kind, MODULE_COLUMNS["iphone mlpackage"])
    assert found.result == "equal", found


@pytest.mark.slow
@pytest.mark.parametrize("column", ["android-cpu", "onnx"])
def test_a_text_encoder_is_the_same_for_android(column: str) -> None:
    found = check_module("bert", MODULE_COLUMNS[column])
    assert found.result == "equal", found


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "code"), [("siglip2", "E149"), ("superpoint", "E946"), ("longformer", "E109")])
def test_what_depends_on_values_is_refused(kind: str, code: str) -> None:
    found = check_module(kind)
    assert (found.result, found.code) == ("refused", code), found
