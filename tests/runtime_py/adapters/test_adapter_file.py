"""Damaged adapter files: whatever is wrong, the answer is a typed error."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.bundle.tensor_file import FloatTensor, TensorFile, tensor_file_bytes
from edgec.errors import InputError
from edgec.runtime_py.adapters.adapter_file import AdapterModule, adapter, read_adapter, write_adapter

BASE, KEY = "ab" * 32, "cd" * 32


def tensor(*shape: int) -> FloatTensor:
    values = np.arange(int(np.prod(shape)), dtype=np.float32)
    return FloatTensor("F32", shape, memoryview(values.tobytes()))


def module(name: str = "model.q_proj", rank: int = 2, key: str = KEY) -> AdapterModule:
    return AdapterModule(name=name, key=key, rank=rank, alpha=4.0, scale=4.0 / rank)


def written(folder: Path, changes: list[tuple[AdapterModule, FloatTensor, FloatTensor]] | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    made = adapter(BASE, "tiny", changes or [(module(), tensor(2, 8), tensor(4, 2))])
    write_adapter(made, folder / "a")
    return folder / "a"


def test_an_intact_file_is_read(tmp_path: Path) -> None:
    read = read_adapter(written(tmp_path))
    (change,) = read.changes
    assert (
        read.base == BASE
        and change.a.shape == (2, 8)
        and change.b.floats()[1].tolist() == [2.0, 3.0]
        and change.scale == 2.0
    )
    assert "1 modules, rank 2" in repr(read)


def test_the_digest_depends_on_every_part(tmp_path: Path) -> None:
    parts = (module(), tensor(2, 8), tensor(4, 2))
    other_scale = module().model_copy(update={"scale": 1.0})
    digests = {
        adapter(BASE, "tiny", [parts]).digest,
        adapter(KEY, "tiny", [parts]).digest,
        adapter(BASE, "other", [parts]).digest,
        adapter(BASE, "tiny", [(other_scale, *parts[1:])]).digest,
        adapter(BASE, "tiny", [(module(), tensor(2, 8), FloatTensor("F32", (4, 2), memoryview(bytes(32))))]).digest,
    }
    assert len(digests) == 5


@pytest.mark.long
@settings(max_examples=300)
@given(st.data())
def test_any_changed_or_missing_byte_is_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = written(tmp_path_factory.getbasetemp() / "damaged")
    raw = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(raw) - 1))
        raw[place] ^= data.draw(st.integers(1, 255))
    else:
        raw = raw[: data.draw(st.integers(0, len(raw) - 1))]
    path.write_bytes(raw)
    try:
        read = read_adapter(path)
    except InputError as error:
        assert error.code == "E695"
    else:
        # White space between the words of the header says nothing.
        assert read.digest == adapter(BASE, "tiny", [(module(), tensor(2, 8), tensor(4, 2))]).digest


@pytest.mark.parametrize(
    "changes",
    [
        [(module(rank=3), tensor(2, 8), tensor(4, 2))],
        [(module(), tensor(2, 8), tensor(4, 3))],
        [(module(), tensor(16), tensor(4, 2))],
        [(module("a"), tensor(2, 8), tensor(4, 2)), (module("b"), tensor(2, 8), tensor(4, 2))],
    ],
)
def test_modules_that_contradict_their_tensors_are_refused(
    tmp_path: Path, changes: list[tuple[AdapterModule, FloatTensor, FloatTensor]]
) -> None:
    with pytest.raises(InputError, match="E695"):
        read_adapter(written(tmp_path, changes))


def test_another_safetensors_file_is_not_an_adapter(tmp_path: Path) -> None:
    for metadata in ({}, {"format": "edgec-adapter-2"}, {"format": "edgec-adapter-1"}):
        (tmp_path / "a").write_bytes(b"".join(tensor_file_bytes(TensorFile(metadata, {"x": tensor(2)}))))
        with pytest.raises(InputError, match="E695"):
            read_adapter(tmp_path / "a")


@pytest.mark.parametrize(
    "header",
    [
        "[]",
        "{",
        json.dumps({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}),
        json.dumps({"x": {"dtype": "F32", "shape": [1 << 40, 1 << 40], "data_offsets": [0, 8]}}),
        json.dumps({"x": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}}),
        json.dumps({"x": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}}),
        json.dumps({"x": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}),
        json.dumps({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}),
        json.dumps({"x": {"dtype": "F32", "shape": [2.5], "data_offsets": [0, 8]}}),
        json.dumps({"__metadata__": {"format": 1}}),
        "[" * 5000,
    ],
)
def test_headers_that_lie_are_refused(tmp_path: Path, header: str) -> None:
    (tmp_path / "a").write_bytes(len(header).to_bytes(8, "little") + header.encode() + bytes(8))
    with pytest.raises(InputError, match="E695"):
        read_adapter(tmp_path / "a")


def test_a_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(InputError, match="E695"):
            read_adapter(path)
