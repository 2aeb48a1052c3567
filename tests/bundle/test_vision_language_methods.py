"""The methods of a model with vision: two of varying shapes, or three of fixed ones that all read rows."""

from __future__ import annotations

import pytest

from edgec.bundle.entry_points import Limits, MethodInfo, TensorInfo, VisionLanguageInfo
from tests.bundle.bundle_samples import sample_manifest

VISION = VisionLanguageInfo(
    limits=Limits(context=64, prefill_chunk=16, logit_rows=1), channels=3, height=8, width=8, rows=4, image_token=7
)


def method(name: str, *inputs: str) -> MethodInfo:
    return MethodInfo(
        name=name, inputs=[TensorInfo(name=each, dtype="float32", shape=[1, 16, 32]) for each in inputs], outputs=[]
    )


def test_see_stands_before_forward_or_before_the_static_methods() -> None:
    for readers in (["forward"], ["prefill", "decode"]):
        methods = [method("vision_encoder", "pixels"), *(method(name, "tokens", "input_embeds") for name in readers)]
        made = sample_manifest(methods=methods, vision_language=VISION, limits=None)
        assert made.writing_limits == VISION.limits


@pytest.mark.parametrize(
    "names",
    [["vision_encoder"], ["vision_encoder", "prefill"], ["prefill", "decode"], ["vision_encoder", "decode", "prefill"]],
)
def test_other_methods_are_refused(names: list[str]) -> None:
    methods = [method(name, "input_embeds") for name in names]
    with pytest.raises(ValueError, match="vision_encoder, forward or vision_encoder, prefill, decode"):
        sample_manifest(methods=methods, vision_language=VISION, limits=None)


def test_each_method_of_the_decoder_reads_rows() -> None:
    reading = method("prefill", "tokens", "input_embeds")
    methods = [method("vision_encoder", "pixels"), reading, method("decode", "tokens")]
    with pytest.raises(ValueError, match="decode of a model of images or audio has an input input_embeds"):
        sample_manifest(methods=methods, vision_language=VISION, limits=None)
