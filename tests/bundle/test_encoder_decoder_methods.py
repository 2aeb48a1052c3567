"""The methods of an encoder-decoder: three of varying shapes, or four of fixed ones that hand on what was read."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from edgec.bundle.entry_points import EncoderDecoderInfo, Limits, MethodInfo, SoundInfo, TensorInfo, source_memory
from tests.bundle.bundle_samples import sample_manifest

LIMITS = Limits(context=64, prefill_chunk=16, logit_rows=1)
SOUND = SoundInfo(sampling_rate=16_000, mels=16, frames=100, fft=400, hop=160)
HEARS, READS = EncoderDecoderInfo(limits=LIMITS, sound=SOUND), EncoderDecoderInfo(limits=LIMITS, source_tokens=32)
KEPT = ("cross_key_0", "cross_value_0")


def tensors(*names: str, shape: Sequence[int] = (1, 4, 8, 16)) -> list[TensorInfo]:
    return [TensorInfo(name=each, dtype="float32", shape=list(shape)) for each in names]


def methods(*used: str, writes: tuple[str, ...] = KEPT) -> list[MethodInfo]:
    """Methods of fixed shapes, whose decoder reads ``writes`` and ``used``."""
    shape = READS.source_shape(32) if used else HEARS.source_shape(0)
    source, padding = tensors("source", shape=shape), tensors(*used, shape=shape)
    return [
        MethodInfo(name="encode", inputs=[*source, *padding], outputs=tensors("states")),
        MethodInfo(name="cross", inputs=tensors("states"), outputs=tensors(*KEPT)),
        *(
            MethodInfo(
                name=name,
                inputs=[*tensors("tokens", "start", *writes), *padding, *tensors("last")],
                outputs=tensors("logits"),
            )
            for name in ("prefill", "decode")
        ),
    ]


def test_encode_and_cross_stand_before_the_static_methods() -> None:
    for reads, used in ((HEARS, ()), (READS, ("source_used",))):
        made = sample_manifest(methods=methods(*used), encoder_decoder=reads, limits=None, states=[])
        assert made.writing_limits == LIMITS
        assert source_memory(made.methods) == [*KEPT, *used]


@pytest.mark.parametrize(
    "names", [["encode", "cross"], ["encode", "prefill", "decode"], ["cross", "prefill", "decode"]]
)
def test_other_methods_are_refused(names: list[str]) -> None:
    left = [method for method in methods() if method.name in names]
    with pytest.raises(ValueError, match="encode, cross, forward or encode, cross, prefill, decode"):
        sample_manifest(methods=left, encoder_decoder=HEARS, limits=None, states=[])


@pytest.mark.parametrize("writes", [KEPT[:1], KEPT[::-1], (*KEPT, "cross_key_1"), ()])
def test_a_decoder_that_reads_other_keys_and_values_than_cross_gives_is_refused(writes: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="reads what encode and cross give"):
        sample_manifest(methods=methods(writes=writes), encoder_decoder=HEARS, limits=None, states=[])


def test_only_a_text_says_which_of_its_tokens_are_padding() -> None:
    for reads, used in ((HEARS, ("source_used",)), (READS, ())):
        with pytest.raises(ValueError, match="encode of an encoder-decoder reads a source"):
            sample_manifest(methods=methods(*used), encoder_decoder=reads, limits=None, states=[])


def changed(index: int, **fields: list[TensorInfo]) -> list[MethodInfo]:
    """The methods for a text, one of which has other inputs or outputs."""
    made = methods("source_used")
    made[index] = made[index].model_copy(update=fields)
    return made


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (changed(0, inputs=tensors("source", "source_used", shape=(1, 16))), "encode of an encoder-decoder reads"),
        (changed(0, inputs=tensors("source", "source_used", shape=())), "encode of an encoder-decoder reads"),
        (changed(0, outputs=[]), "reads what encode gives"),
        (changed(0, outputs=tensors("states", "more")), "reads what encode gives"),
        (changed(1, inputs=tensors("states", shape=(1, 4))), "reads what encode gives"),
        (changed(1, outputs=tensors("key_0", "value_0")), "gives each layer's key and value"),
        (changed(1, outputs=tensors("cross_key_0")), "gives each layer's key and value"),
        (changed(1, outputs=tensors(*KEPT, shape=(1, 4, 8, 8))), "reads what encode and cross give"),
    ],
)
def test_what_methods_hand_on_has_one_shape(made: list[MethodInfo], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        sample_manifest(methods=made, encoder_decoder=READS, limits=None, states=[])
