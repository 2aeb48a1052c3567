"""GPTQ and AWQ matrices mean what their documentation says, and what contradicts itself is refused."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from edgec.errors import InputError
from edgec.exporter.sources.files.model_folder import read_folder
from edgec.exporter.sources.packed.packing import packing_of
from edgec.exporter.sources.packed.weights import PackedWeights
from edgec.exporter.sources.packed.words import unpacked
from edgec.exporter.sources.weights.streamed import open_files
from tests.exporter.sources.packed_writers import (
    awq_parts,
    change_settings,
    change_tensors,
    gptq_parts,
    rounded,
    write_packed,
)
from tests.exporter.sources.small_folders import layer_folder

GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 64, "sym": True, "desc_act": False}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True, "version": "GEMM"}
WEIGHT = "layer.a_proj.weight"


def opened(folder: Path) -> PackedWeights:
    packing = packing_of(read_folder(folder))
    assert packing is not None
    return packing.weights(open_files((folder / "model.safetensors",)))


def word(*values: int) -> Tensor:
    return torch.from_numpy(np.array([values], np.uint32).view(np.int32).copy())


def test_words_are_read_from_their_lowest_bit_on() -> None:
    assert unpacked(word(0x76543210), 4, 8).tolist() == [[0, 1, 2, 3, 4, 5, 6, 7]]
    assert unpacked(word(0xFFFFFFE4), 2, 16)[0, :5].tolist() == [0, 1, 2, 3, 3]
    assert unpacked(word(0x04030201, 0x80FF0605), 8, 8).tolist() == [[1, 2, 3, 4, 5, 6, 255, 128]]


def test_three_bits_cross_words_as_auto_gptq_documents() -> None:
    # Value 10 has two bits in the first word and one in the second; value 21 one there and two in the third.
    codes = unpacked(word(0x40000000, 0x00000001, 0x00000003), 3, 32)[0].tolist()
    assert codes == [0] * 10 + [0b101] + [0] * 10 + [0b110] + [0] * 10


def test_the_zero_point_of_v1_is_stored_less_one() -> None:
    """8 is stored as 7; 15 stands for 0, since kernels add within the bits. v2 stores what it means."""
    from edgec.exporter.sources.packed.gptq import GptqSettings, _zero_points

    stored = word(0x000000F7)
    assert _zero_points(stored, GptqSettings(bits=4), 2).tolist() == [[8, 0]]
    assert _zero_points(stored, GptqSettings(bits=4, checkpoint_format="gptq_v2"), 2).tolist() == [[7, 15]]


def test_the_outputs_of_awq_lie_in_its_order() -> None:
    from edgec.exporter.sources.packed.awq import _unpacked

    # The lowest four bits are output 0, the next output 2, then 4, 6, 1, 3, 5 and 7.
    assert _unpacked(word(0x76543210)).tolist() == [[0, 4, 1, 5, 2, 6, 3, 7]]


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("group", [-1, 32, 64, 128])
@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_gptq_means_scale_times_integer_less_zero(bits: int, group: int, symmetric: bool, tmp_path: Path) -> None:
    for v2 in (False, True):
        settings = {**GPTQ, "bits": bits, "group_size": group, "sym": symmetric}
        settings |= {"checkpoint_format": "gptq_v2"} if v2 else {}

        def parts(name: str, weight: Tensor, v2: bool = v2) -> tuple[dict[str, Tensor], Tensor]:
            made = rounded(weight, bits, group, symmetric)
            return gptq_parts(made, v2, index=not v2), made.values

        meant = write_packed(tmp_path / f"m{v2}", settings, parts, layer_folder(tmp_path))
        weights = opened(tmp_path / f"m{v2}")
        tensor = weights.packed[WEIGHT]
        assert torch.equal(weights.tensor(WEIGHT), meant[WEIGHT])
        assert tensor.form == f"GPTQ {'' if symmetric else 'u'}int{bits}"
        assert (tensor.scheme is not None) == (symmetric or bits < 8)
        _check_grid(weights, meant[WEIGHT])


def _check_grid(weights: PackedWeights, meant: Tensor) -> None:
    """The integers of the graph stand for the same values, to the bit."""
    tensor = weights.packed[WEIGHT]
    if tensor.scheme is None or tensor.integers is None:
        return
    codes, scale, beside = tensor.integers.grid(tensor.scheme)
    assert codes.dtype == torch.int8 and scale.dtype == torch.float32
    groups = codes.float().unflatten(1, (scale.shape[1], -1)) * scale.unsqueeze(2)
    lifted = beside.unsqueeze(2) if beside.dtype == torch.float32 else 0.0
    assert torch.equal((groups + lifted).flatten(1), meant)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("group", [-1, 32, 64, 128])
def test_awq_means_the_same(group: int, symmetric: bool, tmp_path: Path) -> None:
    def parts(name: str, weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        made = rounded(weight, 4, group, symmetric)
        return awq_parts(made), made.values

    settings = {**AWQ, "group_size": group, "zero_point": not symmetric}
    meant = write_packed(tmp_path / "m", settings, parts, layer_folder(tmp_path))
    weights = opened(tmp_path / "m")
    assert torch.equal(weights.tensor(WEIGHT), meant[WEIGHT])
    assert weights.packed[WEIGHT].form == f"AWQ {'' if symmetric else 'u'}int4" and weights.packed[WEIGHT].scheme
    _check_grid(weights, meant[WEIGHT])


def in_order(name: str, weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    made = rounded(weight, 4, 64, True)
    return gptq_parts(made), made.values


def lifted(name: str, weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    made = rounded(weight, 4, 64, False)
    return gptq_parts(made), made.values


def awq_lifted(name: str, weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    made = rounded(weight, 4, 64, False)
    return awq_parts(made), made.values


def test_act_order_means_the_group_of_each_column_and_is_kept_in_the_order_of_groups(tmp_path: Path) -> None:
    order = np.random.default_rng(0).permutation(np.arange(128) // 64)

    def parts(name: str, weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        made = rounded(weight, 4, 64, False, order)
        return gptq_parts(made), made.values

    meant = write_packed(tmp_path / "m", {**GPTQ, "sym": False, "desc_act": True}, parts, layer_folder(tmp_path))
    tensor = opened(tmp_path / "m").packed[WEIGHT]
    assert torch.equal(tensor.values(), meant[WEIGHT])
    assert tensor.form == "GPTQ uint4, act-order" and tensor.scheme is not None and tensor.scheme.group_size == 64
    assert tensor.columns is not None and torch.equal(
        tensor.columns, torch.from_numpy(np.argsort(order, kind="stable"))
    )
    codes, scale, minimum = tensor.integers.grid(tensor.scheme)  # type: ignore[union-attr]
    made = codes[:].float().unflatten(1, (2, 64)) * scale[..., None] + minimum[..., None]
    assert torch.equal(made.flatten(1), meant[WEIGHT][:, tensor.columns])


def test_groups_of_uneven_size_are_not_kept(tmp_path: Path) -> None:
    order = np.random.default_rng(0).permutation(np.arange(128) // 48)

    def parts(name: str, weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        made = rounded(weight, 4, 48, False, order)
        return gptq_parts(made), made.values

    settings = {**GPTQ, "sym": False, "desc_act": True, "group_size": 48}
    meant = write_packed(tmp_path / "m", settings, parts, layer_folder(tmp_path))
    tensor = opened(tmp_path / "m").packed[WEIGHT]
    assert torch.equal(tensor.values(), meant[WEIGHT])
    assert tensor.scheme is None and tensor.columns is None and "act-order" in tensor.reason


def test_groups_in_another_order_are_kept(tmp_path: Path) -> None:
    order = np.array([1, 0, 0, 1]).repeat(32)

    def parts(name: str, weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        made = rounded(weight, 4, 64, False, order)
        return gptq_parts(made), made.values

    meant = write_packed(tmp_path / "m", {**GPTQ, "sym": False, "desc_act": True}, parts, layer_folder(tmp_path))
    weights = opened(tmp_path / "m")
    scheme = weights.packed[WEIGHT].scheme
    assert scheme is not None and scheme.group_size == 32
    _check_grid(weights, meant[WEIGHT])


def test_settings_may_stand_beside_the_config(tmp_path: Path) -> None:
    old_awq = {"w_bit": 4, "q_group_size": 64, "zero_point": True, "version": "GEMM"}
    old_gptq = {"bits": 4, "group_size": 64, "sym": True, "desc_act": False}
    for settings, parts, file in (
        (old_awq, awq_lifted, "quant_config.json"),
        (old_gptq, in_order, "quantize_config.json"),
    ):
        folder = tmp_path / file
        meant = write_packed(folder, settings, parts, layer_folder(tmp_path), beside=file)
        assert torch.equal(opened(folder).tensor(WEIGHT), meant[WEIGHT])
        packing = packing_of(read_folder(folder))
        assert packing and [each.name for each in packing.files] == [file]


def test_files_of_other_tools_beside_the_config_say_nothing(tmp_path: Path) -> None:
    folder = layer_folder(tmp_path)
    (folder / "quant_config.json").write_text('{"per_channel": true}')
    assert packing_of(read_folder(folder)) is None


Break = Callable[[Path], None]


def _settings(**changes: Any) -> Break:
    return lambda folder: change_settings(folder, **changes)


def _tensors(change: Callable[[dict[str, Tensor]], Any]) -> Break:
    def apply(tensors: dict[str, Tensor]) -> None:
        change(tensors)

    return lambda folder: change_tensors(folder, apply)


def _both(one: Break, other: Break) -> Break:
    def apply(folder: Path) -> None:
        one(folder)
        other(folder)

    return apply


def _beside(**settings: Any) -> Break:
    def apply(folder: Path) -> None:
        (folder / "quantize_config.json").write_text(json.dumps(settings))

    return apply


Q = "layer.a_proj"
BAD: dict[str, tuple[str, Break]] = {
    "another layout": ("E814", _settings(checkpoint_format="marlin")),
    "an unknown method": ("E814", _settings(quant_method="wobble")),
    "no method": ("E814", _settings(quant_method=None, bits=None)),
    "bits by layer": ("E814", _settings(dynamic={"-:down": {}})),
    "five bits": ("E815", _settings(bits=5)),
    "bits that are a text": ("E815", _settings(bits="four")),
    "no bits": ("E815", _settings(bits=None)),
    "a group of -2": ("E815", _settings(group_size=-2)),
    "two files that differ": ("E815", _beside(bits=3, group_size=64, sym=True, desc_act=False)),
    "two files of different methods": ("E815", _beside(quant_method="awq", bits=4)),
    "settings that are a list": ("E815", lambda folder: _replace_settings(folder, [])),
    "nothing is quantised": ("E815", _tensors(lambda t: [t.pop(n) for n in list(t) if n.startswith("layer")])),
    "another group size": ("E816", _settings(group_size=32)),
    "other bits": ("E816", _settings(bits=8)),
    "zeros that are not the middle": ("E816", _settings(checkpoint_format="gptq_v2")),
    "missing qzeros": ("E816", _tensors(lambda t: t.pop(f"{Q}.qzeros"))),
    "missing scales": ("E816", _tensors(lambda t: t.pop(f"{Q}.scales"))),
    "act-order without indices": (
        "E816",
        _both(_settings(desc_act=True), _tensors(lambda t: t.pop(f"{Q}.g_idx"))),
    ),
    "words in 64 bits": ("E816", _tensors(lambda t: t.update({f"{Q}.qweight": t[f"{Q}.qweight"].long()}))),
    "scales of integers": ("E816", _tensors(lambda t: t.update({f"{Q}.scales": t[f"{Q}.scales"].int()}))),
    "a vector of words": ("E816", _tensors(lambda t: t.update({f"{Q}.qweight": t[f"{Q}.qweight"].flatten()}))),
    "no words": ("E816", _tensors(lambda t: t.update({f"{Q}.qweight": t[f"{Q}.qweight"][:0]}))),
    "scales of fewer outputs": ("E816", _tensors(lambda t: t.update({f"{Q}.scales": t[f"{Q}.scales"][:, :8].clone()}))),
    "an index too few": ("E816", _tensors(lambda t: t.update({f"{Q}.g_idx": t[f"{Q}.g_idx"][1:].clone()}))),
    "an index beyond the groups": ("E817", _tensors(lambda t: t[f"{Q}.g_idx"].__setitem__(3, 2))),
    "an index below 0": ("E817", _tensors(lambda t: t[f"{Q}.g_idx"].__setitem__(3, -1))),
    "a scale that is not a number": ("E818", _tensors(lambda t: t[f"{Q}.scales"].__setitem__((0, 5), float("nan")))),
    "an infinite scale": ("E818", _tensors(lambda t: t[f"{Q}.scales"].__setitem__((0, 5), float("inf")))),
    "a scale of zero": ("E818", _tensors(lambda t: t[f"{Q}.scales"].__setitem__((0, 5), 0.0))),
}


def _replace_settings(folder: Path, settings: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "quantization_config": settings}))


def refusal(folder: Path) -> InputError:
    begun = time.process_time()
    with pytest.raises(InputError) as caught:
        opened(folder)
    # A bound on work done, far above what it takes: these folders are a few kilobytes.
    assert time.process_time() - begun < 2.0
    assert caught.value.where and caught.value.why and caught.value.fix
    return caught.value


@pytest.mark.parametrize(("code", "spoil"), BAD.values(), ids=BAD)
def test_bad_gptq_is_refused(code: str, spoil: Break, tmp_path: Path) -> None:
    write_packed(tmp_path / "m", GPTQ, in_order, layer_folder(tmp_path))
    spoil(tmp_path / "m")
    assert refusal(tmp_path / "m").code == code


BAD_AWQ: dict[str, tuple[str, Break]] = {
    "another layout": ("E814", _settings(version="gemv")),
    "three bits": ("E815", _settings(bits=3)),
    "zeros without zero_point": ("E816", _settings(zero_point=False)),
    "another group size": ("E816", _settings(group_size=32)),
    "missing qzeros": ("E816", _tensors(lambda t: t.pop(f"{Q}.qzeros"))),
    "a scale that is not a number": ("E818", _tensors(lambda t: t[f"{Q}.scales"].__setitem__((0, 5), float("nan")))),
}


@pytest.mark.parametrize(("code", "spoil"), BAD_AWQ.values(), ids=BAD_AWQ)
def test_bad_awq_is_refused(code: str, spoil: Break, tmp_path: Path) -> None:
    write_packed(tmp_path / "m", AWQ, awq_lifted, layer_folder(tmp_path))
    spoil(tmp_path / "m")
    assert refusal(tmp_path / "m").code == code


UNREAD = (
    *("bitsandbytes", "hqq", "fbgemm_fp8", "nvfp4", "aqlm", "vptq", "quanto"),
    *("eetq", "higgs", "spqr", "quark", "modelopt", "exl2", "auto-round"),
)


@pytest.mark.parametrize("method", UNREAD)
def test_other_methods_are_refused_by_name(method: str, tmp_path: Path) -> None:
    write_packed(tmp_path / "m", {**GPTQ, "quant_method": method}, in_order, layer_folder(tmp_path))
    error = refusal(tmp_path / "m")
    assert error.code == "E814" and method in error.what
