"""Which files of a folder are its weights: transformers' choice, and no guess where two that differ could be meant."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from edgec.errors import InputError
from edgec.exporter.sources.resolve import resolve
from tests.exporter.tiny_sources import llama_tensors, write_config

NORM = "model.norm.weight"
Save = Callable[[Mapping[str, Tensor], Path], object]


def _values(value: float) -> dict[str, Tensor]:
    """A model's tensors, told apart by one of them."""
    return {**llama_tensors(), NORM: torch.full((32,), value)}


def _save(tensors: Mapping[str, Tensor], file: Path) -> None:
    if file.suffix == ".safetensors":
        save_file(dict(tensors), file, metadata={"format": "pt"})
    else:
        torch.save(dict(tensors), file)


def _loaded(file: Path) -> dict[str, Tensor]:
    loaded: dict[str, Tensor] = load_file(file) if file.suffix == ".safetensors" else torch.load(file)
    return loaded


def _shards(folder: Path, tensors: Mapping[str, Tensor], single: str = "model.safetensors") -> list[Path]:
    """Two shards and their index, named as transformers names them."""
    stem, _, suffix = single.partition(".")
    names = sorted(tensors)
    files = [folder / f"{stem}-0000{n}-of-00002.{suffix}" for n in (1, 2)]
    for file, part in zip(files, (names[:9], names[9:]), strict=True):
        _save({name: tensors[name] for name in part}, file)
    table = {name: files[name in names[9:]].name for name in names}
    (folder / f"{single}.index.json").write_text(json.dumps({"metadata": {}, "weight_map": table}))
    return files


def _read(folder: Path, allow_pickle: bool = True) -> float:
    """The value that tells which files were read; transformers has to read the same."""
    source = resolve(str(folder), allow_pickle=allow_pickle)
    assert source.weights is not None
    return float(source.weights.tensor(NORM)[0])


def _by_transformers(folder: Path) -> float:
    from transformers import AutoModelForCausalLM

    return float(AutoModelForCausalLM.from_pretrained(folder).model.norm.weight[0].detach())


def _refused(folder: Path, allow_pickle: bool = True) -> InputError:
    with pytest.raises(InputError) as caught:
        resolve(str(folder), allow_pickle=allow_pickle)
    return caught.value


SINGLES = ["model.safetensors", "pytorch_model.bin"]


@pytest.mark.parametrize("single", SINGLES)
def test_an_index_without_its_shards_does_not_hide_a_whole_file(tmp_path: Path, single: str) -> None:
    folder = write_config(tmp_path / "m")
    for shard in _shards(folder, _values(1.0), single):
        shard.unlink()
    assert single not in _refused(folder).why
    _save(_values(2.0), folder / single)
    assert _read(folder) == _by_transformers(folder) == 2.0


@pytest.mark.parametrize("single", SINGLES)
def test_shards_that_differ_from_a_whole_file_are_refused_with_both_names(tmp_path: Path, single: str) -> None:
    folder = write_config(tmp_path / "m")
    shards = _shards(folder, _values(1.0), single)
    _save(_values(2.0), folder / single)
    error = _refused(folder)
    assert error.code == "E124"
    assert single in error.why and f"{single}.index.json" in error.why
    _save({**_loaded(shards[1]), NORM: torch.full((32,), 2.0)}, shards[1])
    assert _read(folder) == 2.0


def test_shards_of_pickles_are_read_by_their_index(tmp_path: Path) -> None:
    folder = write_config(tmp_path / "m")
    _shards(folder, _values(1.0), "pytorch_model.bin")
    _save(_values(3.0), folder / "ema.bin")
    assert _read(folder) == _by_transformers(folder) == 1.0
    assert _refused(folder, allow_pickle=False).code == "E107"


def test_other_pickles_are_not_joined_with_the_model(tmp_path: Path) -> None:
    folder = write_config(tmp_path / "m")
    _save(_values(1.0), folder / "pytorch_model.bin")
    for name in ("zz_old.bin", "best.pt", "pytorch_model-00001-of-00001.bin"):
        _save(_values(3.0), folder / name)
    assert _read(folder) == _by_transformers(folder) == 1.0


@pytest.mark.parametrize("beside", ["consolidated.safetensors", "adapter_model.safetensors", "ema.safetensors"])
def test_other_tensors_do_not_hide_a_pickle(tmp_path: Path, beside: str) -> None:
    folder = write_config(tmp_path / "m")
    _save(_values(1.0), folder / "pytorch_model.bin")
    _save(_values(3.0), folder / beside)
    assert _read(folder) == _by_transformers(folder) == 1.0
    assert _refused(folder, allow_pickle=False).code == "E107"


@pytest.mark.parametrize("beside", ["consolidated.safetensors", "adapter_model.bin", "model.fp16.safetensors", "a.pt"])
def test_other_files_beside_the_model_are_left_alone(tmp_path: Path, beside: str) -> None:
    folder = write_config(tmp_path / "m")
    _save(_values(1.0), folder / "model.safetensors")
    _save(_values(3.0), folder / beside)
    assert _read(folder, allow_pickle=False) == _by_transformers(folder) == 1.0


def test_one_file_of_another_name_is_taken_and_two_are_refused_by_name(tmp_path: Path) -> None:
    folder = write_config(tmp_path / "m")
    _save(_values(1.0), folder / "tuned.safetensors")
    _save(_values(2.0), folder / "tuned.pt")
    assert _read(folder, allow_pickle=False) == 1.0
    _save(_values(3.0), folder / "older.safetensors")
    error = _refused(folder)
    assert error.code == "E124" and "older.safetensors" in error.why and "tuned.safetensors" in error.why


def test_files_that_are_not_the_model_are_named_where_there_is_none(tmp_path: Path) -> None:
    folder = write_config(tmp_path / "m")
    _save(_values(1.0), folder / "consolidated.safetensors")
    error = _refused(folder)
    assert error.code == "E112" and "consolidated.safetensors" in error.why


def test_an_adapter_in_the_models_folder_is_refused(tmp_path: Path) -> None:
    folder = write_config(tmp_path / "m")
    (folder / "adapter_config.json").write_text("{}")
    _save({"x": torch.ones(2)}, folder / "adapter_model.safetensors")
    assert _refused(folder).code == "E124"
    _save(_values(1.0), folder / "model.safetensors")
    error = _refused(folder)
    assert error.code == "E124" and "adapter_config.json" in error.where
    assert resolve(str(folder), random_weights=True).weights is not None


def test_the_file_that_the_config_names_is_read(tmp_path: Path) -> None:
    folder = write_config(tmp_path / "m", {"transformers_weights": "tuned.safetensors"})
    _save(_values(1.0), folder / "model.safetensors")
    assert _refused(folder).code == "E112"
    _save(_values(2.0), folder / "tuned.safetensors")
    assert _read(folder) == _by_transformers(folder) == 2.0
    for name in ("../m/model.safetensors", "tuned.pt", 3):
        assert _refused(write_config(tmp_path / "m", {"transformers_weights": name})).code == "E112"


def test_the_index_that_the_config_names_is_read(tmp_path: Path) -> None:
    folder = write_config(tmp_path / "m", {"transformers_weights": "tuned.safetensors.index.json"})
    _shards(folder, _values(2.0), "tuned.safetensors")
    _save(_values(1.0), folder / "model.safetensors")
    assert _read(folder) == _by_transformers(folder) == 2.0


def test_a_tensor_in_two_shards_of_pickles_is_refused(tmp_path: Path) -> None:
    folder = write_config(tmp_path / "m")
    first, second = _shards(folder, _values(1.0), "pytorch_model.bin")
    _save({**_loaded(second), **_loaded(first)}, second)
    assert _refused(folder).code == "E105"
