"""compressed-tensors, FP8, MXFP4 and bitnet matrices mean what their libraries say, and bad ones are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from edgec.errors import InputError
from edgec.ir.stored_forms import MXFP4_INTEGERS
from tests.exporter.sources.packed.test_gptq import WEIGHT, Break, Q, _check_grid, _settings, _tensors, opened, refusal
from tests.exporter.sources.packed_writers import Rounded, packed_words, rounded, write_packed
from tests.exporter.sources.small_folders import layer_folder

FP4 = torch.tensor([0.0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


def compressed(layout: str, **weights: Any) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": weights}
    return {"quant_method": "compressed-tensors", "format": layout, "config_groups": {"group_0": group}, "ignore": []}


def grouped(bits: int, group: int, symmetric: bool) -> dict[str, Any]:
    strategy = "channel" if group == -1 else "group"
    size = None if group == -1 else group
    return compressed(
        "pack-quantized", num_bits=bits, type="int", symmetric=symmetric, strategy=strategy, group_size=size
    )


def pack_parts(matrix: Rounded, symmetric: bool) -> dict[str, Tensor]:
    """Half the integers' number is part of the packed codes and zero points."""
    parts = {
        "weight_packed": packed_words(matrix.codes, matrix.bits),
        "weight_scale": torch.from_numpy(matrix.scale.copy()),
        "weight_shape": torch.tensor(matrix.codes.shape),
    }
    zeros = packed_words(matrix.zero.T, matrix.bits).t().contiguous()
    return {**parts, **({} if symmetric else {"weight_zero_point": zeros})}


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("group", [-1, 32, 64])
@pytest.mark.parametrize("bits", [3, 4, 8])
def test_packed_integers(bits: int, group: int, symmetric: bool, tmp_path: Path) -> None:
    def parts(name: str, weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        made = rounded(weight, bits, group, symmetric)
        return pack_parts(made, symmetric), made.values

    meant = write_packed(tmp_path / "m", grouped(bits, group, symmetric), parts, layer_folder(tmp_path))
    weights = opened(tmp_path / "m")
    tensor = weights.packed[WEIGHT]
    assert torch.equal(weights.tensor(WEIGHT), meant[WEIGHT])
    assert tensor.form == f"compressed-tensors {'' if symmetric else 'u'}int{bits}"
    assert (tensor.scheme is not None) == (symmetric or bits < 8)
    _check_grid(weights, meant[WEIGHT])


def int8_parts(name: str, weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    scale = (weight.abs().amax(1, keepdim=True) / 127).bfloat16()
    codes = (weight / scale.float()).round().clamp(-128, 127).to(torch.int8)
    return {"weight": codes, "weight_scale": scale}, codes.float() * scale.float()


W8A8 = compressed("int-quantized", num_bits=8, type="int", symmetric=True, strategy="channel")


def test_int8_of_channels_is_kept(tmp_path: Path) -> None:
    meant = write_packed(tmp_path / "m", W8A8, int8_parts, layer_folder(tmp_path))
    weights = opened(tmp_path / "m")
    assert torch.equal(weights.tensor(WEIGHT), meant[WEIGHT])
    scheme = weights.packed[WEIGHT].scheme
    assert scheme is not None and (scheme.bits, scheme.group_size) == (8, 0)
    _check_grid(weights, meant[WEIGHT])


def float8_parts(name: str, weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    scale = weight.abs().amax(1, keepdim=True) / 448
    codes = (weight / scale).to(torch.float8_e4m3fn)
    return {"weight": codes, "weight_scale": scale, "input_scale": torch.ones(1)}, codes.float() * scale


FP8 = compressed("float-quantized", num_bits=8, type="float", strategy="channel")


def blocks_parts(name: str, weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    """Blocks of 24 rows and 48 columns, the last ones smaller: 32 x 128 have 2 x 3 of them."""
    scale = torch.rand(2, 3) + 0.5
    spread = scale.repeat_interleave(24, 0)[:32].repeat_interleave(48, 1)[:, :128]
    codes = (weight / spread).to(torch.float8_e4m3fn)
    return {"weight": codes, "weight_scale_inv": scale}, codes.float() * spread


FINE = {"quant_method": "fp8", "weight_block_size": [24, 48], "activation_scheme": "dynamic"}


@pytest.mark.parametrize(("settings", "parts"), [(FP8, float8_parts), (FINE, blocks_parts)], ids=["channel", "blocks"])
def test_float8_is_read_and_not_kept(settings: dict[str, Any], parts: Any, tmp_path: Path) -> None:
    meant = write_packed(tmp_path / "m", settings, parts, layer_folder(tmp_path))
    weights = opened(tmp_path / "m")
    tensor = weights.packed[WEIGHT]
    assert torch.equal(weights.tensor(WEIGHT), meant[WEIGHT])
    assert tensor.form == "FP8 E4M3" and tensor.scheme is None and 8 < tensor.bits < 8.5
    assert set(weights.names()) == {"layer.a_proj.weight", "layer.b_proj.weight", "norm.weight"}


def test_float8_in_blocks_is_what_transformers_makes_of_it(tmp_path: Path) -> None:
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize

    def parts(name: str, weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        scale = torch.rand(2, 4) + 0.5
        codes = (10 * weight).to(torch.float8_e4m3fn)
        converter = Fp8Dequantize(None)
        return {"weight": codes, "weight_scale_inv": scale}, converter._dequantize_one(codes, scale, torch.float32)

    settings = {**FINE, "weight_block_size": [16, 32]}
    meant = write_packed(tmp_path / "m", settings, parts, layer_folder(tmp_path))
    assert torch.equal(opened(tmp_path / "m").tensor(WEIGHT), meant[WEIGHT])


def mxfp4_codes(rows: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Random codes in bytes, powers of two, and what they mean."""
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(0, 16, (rows, width), generator=generator)
    powers = torch.randint(115, 125, (rows, width // 32), generator=generator, dtype=torch.uint8)
    values = FP4[codes] * (2.0 ** (powers.float() - 127)).repeat_interleave(32, 1)
    return (codes[:, ::2] | codes[:, 1::2] << 4).to(torch.uint8), powers, values


def mxfp4_parts(name: str, weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    packed, powers, values = mxfp4_codes(*weight.shape)
    return {"weight_packed": packed, "weight_scale": powers}, values


MX = compressed("mxfp4-pack-quantized", num_bits=4, type="float", strategy="group", group_size=32)


def test_mxfp4_is_held_by_integers_of_five_bits(tmp_path: Path) -> None:
    meant = write_packed(tmp_path / "m", MX, mxfp4_parts, layer_folder(tmp_path))
    weights = opened(tmp_path / "m")
    tensor = weights.packed[WEIGHT]
    assert torch.equal(weights.tensor(WEIGHT), meant[WEIGHT])
    assert tensor.form == "MXFP4" and tensor.bits == 4.25
    assert tensor.scheme is not None and tensor.scheme.stored == MXFP4_INTEGERS.name
    _check_grid(weights, meant[WEIGHT])


def test_experts_in_mxfp4_are_what_transformers_makes_of_them(tmp_path: Path) -> None:
    from safetensors.torch import save_file
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    folder = layer_folder(tmp_path)
    packed, powers, _ = mxfp4_codes(3 * 16, 64)
    blocks, scales = packed.view(3, 16, 2, 16), powers.view(3, 16, 2)
    save_file(
        {"a.experts.down_proj_blocks": blocks, "a.experts.down_proj_scales": scales}, folder / "model.safetensors"
    )
    (folder / "config.json").write_text('{"quantization_config": {"quant_method": "mxfp4"}}')
    weights = opened(folder)
    wanted = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
    assert torch.equal(weights.tensor("a.experts.down_proj"), wanted)
    assert weights.names()["a.experts.down_proj"].shape == (3, 64, 16) == tuple(wanted.shape)
    tensor = weights.packed["a.experts.down_proj"]
    assert tensor.form == "MXFP4" and tensor.scheme is not None and tensor.scheme.stored == MXFP4_INTEGERS.name
    # Integers of the rows of all experts, as a captured graph reads them: the other way round than the parameter.
    assert tensor.integers is not None
    codes, scale, _ = tensor.integers.grid(tensor.scheme)
    assert torch.equal(codes * scale.repeat_interleave(32, 1), wanted.transpose(1, 2).reshape(-1, 64))


def ternary_parts(name: str, weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    """Four rows in a byte by the words of transformers: bits 0 and 1 of the first quarter of the rows, and so on."""
    codes = torch.randint(-1, 2, weight.shape, generator=torch.Generator().manual_seed(1))
    quarters = (codes + 1).view(4, -1, weight.shape[1])
    packed = sum(quarters[place] << 2 * place for place in range(4))
    assert isinstance(packed, Tensor)
    scale = torch.tensor([24.0]).bfloat16()
    return {"weight": packed.to(torch.uint8), "weight_scale": scale}, codes / scale.float()


BITNET = {"quant_method": "bitnet", "linear_class": "bitlinear", "quantization_mode": "offline"}


def test_ternary_matrices_are_kept(tmp_path: Path) -> None:
    meant = write_packed(tmp_path / "m", BITNET, ternary_parts, layer_folder(tmp_path))
    weights = opened(tmp_path / "m")
    scheme = weights.packed[WEIGHT].scheme
    # A third part in a thousand millions: one division there, one division and one product here.
    torch.testing.assert_close(weights.tensor(WEIGHT), meant[WEIGHT], rtol=2e-7, atol=0)
    assert scheme is not None and (scheme.bits, scheme.group_size, scheme.levels) == (2, 0, 3)
    _check_grid(weights, weights.tensor(WEIGHT))


def test_autobitlinear_multiplies(tmp_path: Path) -> None:
    settings = {**BITNET, "linear_class": "autobitlinear"}
    meant = write_packed(tmp_path / "m", settings, ternary_parts, layer_folder(tmp_path))
    assert torch.equal(opened(tmp_path / "m").tensor(WEIGHT), meant[WEIGHT].sign() * 24.0)


def test_rows_are_where_transformers_unpacks_them() -> None:
    from transformers.integrations.bitnet import pack_weights

    from edgec.exporter.sources.packed.bitnet import _codes
    from edgec.exporter.sources.packed.parts import Parts
    from edgec.exporter.sources.weights.streamed import RandomWeights

    codes = torch.randint(-1, 2, (16, 8), generator=torch.Generator().manual_seed(2)).float()
    packed = pack_weights(codes.clone())

    class Packed(RandomWeights):
        def tensor(self, name: str) -> Tensor:
            result: Tensor = packed
            return result

    assert torch.equal(_codes(Parts(Packed({}), "x"), slice(None)).float(), codes)


@pytest.mark.parametrize("bits", [4, 8])
def test_torchao_reads_what_it_saved(bits: int, tmp_path: Path) -> None:
    """Written by torchao itself, as transformers saves it; what it means is torchao's own dequantisation."""
    from safetensors.torch import save_file
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    from torchao.quantization import Int8WeightOnlyConfig, IntxWeightOnlyConfig, quantize_
    from torchao.quantization.granularity import PerGroup

    layer = torch.nn.Sequential(torch.nn.Linear(128, 32)).bfloat16()
    grouped_4 = IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32))  # type: ignore[attr-defined]
    quantize_(layer, grouped_4 if bits == 4 else Int8WeightOnlyConfig(version=2))
    state = {f"a.{name}": value.data for name, value in layer.state_dict().items()}
    tensors, metadata = flatten_tensor_state_dict(state)
    folder = layer_folder(tmp_path)
    save_file(tensors, folder / "model.safetensors", metadata)
    (folder / "config.json").write_text('{"quantization_config": {"quant_method": "torchao"}}')
    weights = opened(folder)
    tensor = weights.packed["a.0.weight"]
    # torchao multiplies in bfloat16.
    assert torch.equal(tensor.values().bfloat16(), state["a.0.weight"].dequantize())
    assert tensor.form == f"torchao int{bits}" and tensor.scheme is not None and tensor.scheme.bits == bits
    metadata["a.0.weight"] = metadata["a.0.weight"].replace("Tensor", "PackedTensor")
    save_file(tensors, folder / "model.safetensors", metadata)
    assert refusal(folder).code == "E814"


BAD: dict[str, tuple[str, dict[str, Any], Any, Break]] = {
    "NVFP4": ("E814", MX, mxfp4_parts, _settings(format="nvfp4-pack-quantized")),
    "sparse": ("E814", W8A8, int8_parts, _settings(sparsity_config={"format": "sparse-24-bitmask"})),
    "no groups": ("E815", W8A8, int8_parts, _settings(config_groups={})),
    "nine bits": ("E815", compressed("pack-quantized", num_bits=9), int8_parts, _settings()),
    "floats that are said to be integers": ("E816", W8A8, float8_parts, _tensors(lambda t: t.pop(f"{Q}.weight"))),
    "integers, none stated": ("E816", FP8, int8_parts, _settings()),
    "other bits": ("E816", grouped(4, 64, True), None, _settings(**grouped(8, 64, True))),
    "another group": ("E816", grouped(4, 64, True), None, _settings(**grouped(4, 32, True))),
    "zero points left out": ("E816", grouped(4, 64, True), None, _settings(**grouped(4, 64, False))),
    "no shape": ("E816", grouped(4, 64, True), None, _tensors(lambda t: t.pop(f"{Q}.weight_shape"))),
    "another shape": ("E816", grouped(4, 64, True), None, _tensors(lambda t: t[f"{Q}.weight_shape"].add_(1))),
    "no scale": ("E816", grouped(4, 64, True), None, _tensors(lambda t: t.pop(f"{Q}.weight_scale"))),
    "an index beyond the groups": (
        "E817",
        grouped(4, 64, True),
        None,
        _tensors(lambda t: t.update({f"{Q}.weight_g_idx": torch.full((128,), 2, dtype=torch.int32)})),
    ),
    "a scale of zero": ("E818", W8A8, int8_parts, _tensors(lambda t: t[f"{Q}.weight_scale"].zero_())),
    "an infinite scale": ("E818", FINE, blocks_parts, _tensors(lambda t: t[f"{Q}.weight_scale_inv"].fill_(torch.inf))),
    "a power that is not a number": ("E818", MX, mxfp4_parts, _tensors(lambda t: t[f"{Q}.weight_scale"].fill_(255))),
    "blocks of another size": ("E816", FINE, blocks_parts, _settings(weight_block_size=[24, 24])),
    "blocks of nothing": ("E816", FINE, blocks_parts, _settings(weight_block_size=[0, 48])),
    "a shape beyond all memory": (
        "E816",
        grouped(4, 64, True),
        None,
        _tensors(lambda t: t[f"{Q}.weight_shape"].__setitem__(1, 1 << 60)),
    ),
    "one number for blocks": ("E815", FINE, blocks_parts, _settings(weight_block_size=[24])),
    "experts of four bits": ("E814", FINE, blocks_parts, _settings(expert_dtype="fp4")),
    "ternary online": ("E814", BITNET, ternary_parts, _settings(quantization_mode="online")),
    "norms inside": ("E814", BITNET, ternary_parts, _settings(use_rms_norm=True)),
    "a scale for each row": (
        "E816",
        BITNET,
        ternary_parts,
        _tensors(lambda t: t.update({f"{Q}.weight_scale": torch.ones(32)})),
    ),
}


def _packed(name: str, weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    made = rounded(weight, 4, 64, True)
    return pack_parts(made, True), made.values


@pytest.mark.parametrize(("code", "settings", "parts", "spoil"), BAD.values(), ids=BAD)
def test_bad_checkpoints_are_refused(
    code: str, settings: dict[str, Any], parts: Any, spoil: Break, tmp_path: Path
) -> None:
    write_packed(tmp_path / "m", settings, parts or _packed, layer_folder(tmp_path))
    spoil(tmp_path / "m")
    assert refusal(tmp_path / "m").code == code


@pytest.mark.parametrize(
    ("settings", "parts", "value"), [(BITNET, ternary_parts, 255), (FINE, blocks_parts, torch.nan)], ids=["3", "NaN"]
)
def test_codes_that_the_format_lacks_are_refused_when_they_are_read(
    settings: dict[str, Any], parts: Any, value: Any, tmp_path: Path
) -> None:
    write_packed(tmp_path / "m", settings, parts, layer_folder(tmp_path))
    name = f"{Q}.weight"
    fill = _tensors(lambda t: t.update({name: torch.full(t[name].shape, value).to(t[name].dtype)}))
    fill(tmp_path / "m")
    with pytest.raises(InputError) as caught:
        opened(tmp_path / "m").tensor(WEIGHT)
    assert caught.value.code == "E819"


@pytest.mark.parametrize("symmetric", [True, False])
def test_the_package_reads_the_same(symmetric: bool, tmp_path: Path) -> None:
    compressors = pytest.importorskip("compressed_tensors.compressors")
    scheme_of = pytest.importorskip("compressed_tensors.quantization").QuantizationScheme
    settings = grouped(4, 32, symmetric)

    def parts(name: str, weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        made = rounded(weight, 4, 32, symmetric)
        scheme = scheme_of(**settings["config_groups"]["group_0"])
        state = {"weight": made.values, "weight_scale": torch.from_numpy(made.scale.copy()).float()}
        state |= {} if symmetric else {"weight_zero_point": torch.from_numpy(made.zero - 8).to(torch.int8)}
        packed = compressors.PackedQuantizationCompressor.compress(state, scheme)
        return dict(packed), compressors.PackedQuantizationCompressor.decompress(packed, scheme)["weight"]

    meant = write_packed(tmp_path / "m", settings, parts, layer_folder(tmp_path))
    assert torch.equal(opened(tmp_path / "m").tensor(WEIGHT), meant[WEIGHT])
    whole, values = int8_parts("", torch.randn(32, 128))
    scheme = scheme_of(**W8A8["config_groups"]["group_0"])
    state = {name: value.float() if name == "weight_scale" else value for name, value in whole.items()}
    assert torch.equal(compressors.IntQuantizationCompressor.decompress(state, scheme)["weight"].float(), values)
