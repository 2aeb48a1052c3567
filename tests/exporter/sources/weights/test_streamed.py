"""Weights by mmap: the right values, no copies, and no belief in what a header says."""

from __future__ import annotations

import gc
import json
import random
from pathlib import Path

import psutil
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import nn

from edgec.errors import InputError
from edgec.exporter.sources.files.mapped_pieces import pieces_by_file
from edgec.exporter.sources.files.pickle_weights import open_pickles
from edgec.exporter.sources.files.safetensors_header import DTYPES, read_header
from edgec.exporter.sources.source_weights import random_weights
from edgec.exporter.sources.weight_choice import stored_weights
from edgec.exporter.sources.weights.streamed import LoadedWeights, RandomWeights, open_files
from tests.exporter.tiny_sources import llama_tensors, raw_safetensors, write_llama, write_shards, write_sparse

F32_PAIR = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def _refused(file: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        read_header(file)
    assert caught.value.code == "E105"
    assert file.name in caught.value.where
    return caught.value


def test_values_are_those_of_the_reference_reader(tmp_path: Path) -> None:
    weights = stored_weights(write_llama(tmp_path), False)
    reference = load_file(tmp_path / "model.safetensors")
    assert set(weights.names()) == set(reference)
    for name, value in reference.items():
        assert weights.names()[name].shape == tuple(value.shape)
        assert torch.equal(weights.tensor(name), value)


def test_every_dtype_survives(tmp_path: Path) -> None:
    # F8_E8M0 and 64-bit unsigned have no arithmetic in torch: compared as bytes.
    tensors = {name: torch.arange(16, dtype=torch.uint8).view(dtype).clone() for name, dtype in DTYPES.items()}
    tensors["BOOL"] = torch.tensor([True, False])
    save_file(tensors, tmp_path / "model.safetensors")
    weights = stored_weights(tmp_path, False)
    for name, value in tensors.items():
        stored = weights.tensor(name)
        assert stored.dtype == value.dtype
        assert torch.equal(stored.view(torch.uint8), value.view(torch.uint8))


def test_tensors_are_views_of_one_mapping_and_writing_leaves_the_file_alone(tmp_path: Path) -> None:
    folder = write_llama(tmp_path)
    before = (folder / "model.safetensors").read_bytes()
    weights = stored_weights(folder, False)
    name = "model.norm.weight"
    assert weights.tensor(name).data_ptr() == weights.tensor(name).data_ptr()
    weights.tensor(name).zero_()
    assert (folder / "model.safetensors").read_bytes() == before


def test_a_tensor_outlives_its_weights(tmp_path: Path) -> None:
    tensor = stored_weights(write_llama(tmp_path), False).tensor("model.norm.weight")
    assert torch.equal(tensor, llama_tensors()["model.norm.weight"])


def test_an_unaligned_tensor_is_read_right(tmp_path: Path) -> None:
    file = tmp_path / "odd.safetensors"
    header = json.dumps({"a": F32_PAIR}).encode()
    header += b" " * ((1 - len(header) - 8) % 4)  # data begins at 1 modulo 4
    value = torch.tensor([1.5, -2.0])
    file.write_bytes(raw_safetensors(header, value.numpy().tobytes()))
    assert torch.equal(open_files((file,)).tensor("a"), value)


def test_empty_and_scalar_tensors(tmp_path: Path) -> None:
    save_file({"none": torch.empty(0, 4), "one": torch.tensor(3.0)}, tmp_path / "model.safetensors")
    weights = stored_weights(tmp_path, False)
    assert weights.tensor("none").shape == (0, 4)
    assert weights.tensor("one").item() == 3.0


def test_shards_are_one_set_of_names(tmp_path: Path) -> None:
    weights = stored_weights(write_shards(tmp_path), False)
    assert len(weights.files) == 2
    for name, value in llama_tensors().items():
        assert torch.equal(weights.tensor(name), value)


def test_a_consolidated_copy_beside_the_model_is_left_out(tmp_path: Path) -> None:
    write_llama(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "weights.safetensors")
    save_file({"other": torch.ones(1)}, tmp_path / "consolidated.safetensors")
    assert "model.norm.weight" in stored_weights(tmp_path, False).names()


def test_names_of_a_huge_file_allocate_nothing(tmp_path: Path) -> None:
    claimed = write_sparse(tmp_path / "model.safetensors", {f"t{i}": (2**20, 2**8) for i in range(64)})
    before = psutil.Process().memory_info().rss
    weights = stored_weights(tmp_path, False)
    assert sum(entry.nbytes for entry in weights.names().values()) == claimed == 64 * 2**30
    assert weights.tensor("t63")[-1].eq(0).all()
    grown = psutil.Process().memory_info().rss - before
    assert grown < claimed / 1000


def test_truncation_at_any_length_is_refused_with_both_sizes(tmp_path: Path) -> None:
    whole = (write_llama(tmp_path / "whole") / "model.safetensors").read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    file = tmp_path / "cut.safetensors"
    lengths = [0, 1, 7, 8, 9, header // 2, header - 1, header, header + 1, len(whole) // 2, len(whole) - 1]
    for length in lengths:
        file.write_bytes(whole[:length])
        error = _refused(file)
        assert str(length) in error.why
    file.write_bytes(whole[: len(whole) - 1])
    assert str(len(whole)) in _refused(file).why


def test_trailing_bytes_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "long.safetensors"
    file.write_bytes(raw_safetensors({"a": F32_PAIR}, bytes(9)))
    assert "the file has" in _refused(file).why


MALFORMED = {
    "not json": b"{nonsense",
    "not utf-8": b'{"\xff": 1}',
    "a list": b"[]",
    "deep nesting": b"[" * 100_000,
    "a name twice": b'{"a": 1, "a": 1}',
    "an entry that is a number": {"a": 1},
    "no offsets": {"a": {"dtype": "F32", "shape": [2]}},
    "an unknown dtype": {"a": {**F32_PAIR, "dtype": "F7"}},
    "a dtype that is a list": {"a": {**F32_PAIR, "dtype": ["F32"]}},
    "a negative size": {"a": {**F32_PAIR, "shape": [-2]}},
    "a boolean size": {"a": {**F32_PAIR, "shape": [True, 2]}},
    "a size beyond 64 bits": {"a": {**F32_PAIR, "shape": [2**70]}},
    "another shape than its bytes": {"a": {**F32_PAIR, "shape": [3]}},
    "offsets outside the file": {"a": {**F32_PAIR, "data_offsets": [8, 16]}},
    "reversed offsets": {"a": {**F32_PAIR, "data_offsets": [8, 0]}},
    "three offsets": {"a": {**F32_PAIR, "data_offsets": [0, 8, 8]}},
    "an overlap": {"a": F32_PAIR, "b": F32_PAIR},
    "a gap": {"a": {**F32_PAIR, "shape": [1], "data_offsets": [4, 8]}},
}


@pytest.mark.parametrize("header", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_header_is_refused(tmp_path: Path, header: object) -> None:
    file = tmp_path / "bad.safetensors"
    file.write_bytes(raw_safetensors(header, bytes(8)))
    _refused(file)


def test_a_header_longer_than_the_format_allows_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "bad.safetensors"
    file.write_bytes(raw_safetensors({"a": F32_PAIR}, bytes(8), length=2**62))
    assert "more than the format allows" in _refused(file).why


@pytest.mark.long
def test_flipped_header_bytes_never_give_anything_but_an_input_error(tmp_path: Path) -> None:
    whole = (write_llama(tmp_path / "whole") / "model.safetensors").read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    file = tmp_path / "flipped.safetensors"
    draw = random.Random(0)
    refused = 0
    for _ in range(500):
        damaged = bytearray(whole)
        damaged[draw.randrange(header)] ^= 1 << draw.randrange(8)
        file.write_bytes(damaged)
        try:
            weights = open_files((file,))
        except InputError as error:
            refused += error.code == "E105"
            continue
        # A changed name or a dtype of the same width is still a well-formed file: it must be readable in bounds.
        assert sum(weights.tensor(name).numel() for name in weights.names()) > 0
    assert refused > 200


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_never_give_anything_but_an_input_error(data: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "any.safetensors"
        file.write_bytes(data)
        try:
            read_header(file)
        except InputError as error:
            assert error.code == "E105"


def test_random_weights_depend_on_name_and_seed_alone() -> None:
    shapes = {"a.weight": (64, 64), "b.weight": (64, 64), "norm.weight": (8,), "a.bias": (8,)}
    one, other = RandomWeights(shapes, seed=1), RandomWeights(dict(reversed(shapes.items())), seed=1)
    for name in shapes:
        assert torch.equal(one.tensor(name), other.tensor(name))
        assert tuple(one.tensor(name).shape) == one.names()[name].shape
    assert not torch.equal(one.tensor("a.weight"), one.tensor("b.weight"))
    assert not torch.equal(one.tensor("a.weight"), RandomWeights(shapes, seed=2).tensor("a.weight"))
    assert one.tensor("norm.weight").eq(1).all()
    assert one.tensor("a.bias").eq(0).all()
    # 4096 draws: the sample's standard deviation lies within 5 % of 0.02 (four standard errors are 4.4 %).
    assert one.tensor("a.weight").std().item() == pytest.approx(0.02, rel=0.05)


def test_random_weights_come_in_the_dtype_of_a_checkpoint() -> None:
    shapes = {"a.weight": (64, 64), "norm.weight": (8,), "a.bias": (8,)}
    single, half = RandomWeights(shapes), RandomWeights(shapes, dtype=torch.bfloat16)
    for name in shapes:
        assert half.names()[name].dtype == half.tensor(name).dtype == torch.bfloat16
        assert torch.equal(half.tensor(name), single.tensor(name).to(torch.bfloat16))


def test_held_weights_are_made_once_until_they_are_let_go() -> None:
    held = LoadedWeights(RandomWeights({"a.weight": (4, 4)}))
    first = held.tensor("a.weight")
    assert held.tensor("a.weight") is first
    held.let_go()
    assert held.tensor("a.weight") is not first and torch.equal(held.tensor("a.weight"), first)


@pytest.mark.long
def test_pages_leave_memory_with_the_last_view_of_their_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgec.exporter.sources.files.mapped_pieces._PIECE_BYTES", 8192)
    tensors = {f"t{i}": torch.full((1024,), float(i)) for i in range(6)}
    save_file(tensors, tmp_path / "model.safetensors")
    pieces = pieces_by_file(stored_weights(tmp_path, False).names())[tmp_path / "model.safetensors"]
    entries = read_header(tmp_path / "model.safetensors")
    views = [pieces.tensor(entries[name]) for name in sorted(tensors)]
    assert [float(view.mean()) for view in views] == [0, 1, 2, 3, 4, 5]
    assert len(pieces.starts) == len(pieces._mapped) == 3
    del views[:3]
    gc.collect()
    assert len(pieces._mapped) == 2  # the second piece still has a view


def test_pickles_are_read_as_data_only_when_allowed(tmp_path: Path) -> None:
    file = tmp_path / "pytorch_model.bin"
    torch.save({"state_dict": llama_tensors()}, file)
    weights = open_pickles((file,), allow_pickle=True)
    assert torch.equal(weights.tensor("model.norm.weight"), llama_tensors()["model.norm.weight"])
    with pytest.raises(InputError, match="E107"):
        open_pickles((file,), allow_pickle=False)


@pytest.mark.parametrize(("scaling", "wanted"), [(1.0, 0.25), (0.25, 1.0)])
def test_keys_of_unscaled_scores_have_small_random_norms(scaling: float, wanted: float) -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scaling, self.q_norm, self.k_norm = scaling, nn.RMSNorm(16), nn.RMSNorm(16)

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([Attention()])

    weights = random_weights(Decoder(), 0, {})
    assert weights.tensor("layers.0.q_norm.weight").unique().tolist() == [1.0]
    assert weights.tensor("layers.0.k_norm.weight").unique().tolist() == [wanted]
