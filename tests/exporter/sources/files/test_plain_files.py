"""What is not a regular file is refused before it is opened: a pipe would keep the reader waiting forever."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
import torch
from safetensors.torch import save_file

from edgec.errors import InputError
from edgec.exporter.sources.files.safetensors_header import read_header
from edgec.exporter.sources.resolve import resolve
from tests.exporter.tiny_sources import llama_tensors, write_config, write_llama

# Every file that some kind of model takes from its folder.
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "other.safetensors", "pytorch_model.bin", "best.pt")
DESCRIPTIONS = (
    "README.md",
    "LICENSE",
    "COPYING.txt",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "additional_chat_templates/tools.jinja",
)


@pytest.fixture(autouse=True)
def soon() -> Iterator[None]:
    """End a test that waits for a pipe."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError("something waits for a pipe")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def _pipe(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    os.mkfifo(file)


def _device(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    file.symlink_to("/dev/zero")


def _code(folder: Path, trust_remote_code: bool = False) -> str:
    with pytest.raises(InputError) as caught:
        resolve(str(folder), allow_pickle=True, trust_remote_code=trust_remote_code)
    return caught.value.code


@pytest.mark.parametrize("make", [_pipe, _device])
@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_descriptions_that_are_not_files_are_refused(tmp_path: Path, name: str, make: object) -> None:
    folder = write_llama(tmp_path)
    assert callable(make)
    make(folder / name)
    assert _code(folder) == "E125"


@pytest.mark.parametrize("make", [_pipe, _device])
@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_that_are_not_files_are_refused(tmp_path: Path, name: str, make: object) -> None:
    folder = write_config(tmp_path)
    assert callable(make)
    make(folder / name)
    assert _code(folder) == "E125"


def test_a_shard_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    folder = write_config(tmp_path)
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "model-1.safetensors"}}')
    _pipe(folder / "model-1.safetensors")
    assert _code(folder) == "E125"


def test_a_config_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    _pipe(tmp_path / "config.json")
    assert _code(tmp_path) == "E125"


def test_code_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    _pipe(write_llama(tmp_path) / "model.py")
    assert _code(tmp_path, trust_remote_code=True) == "E125"


def test_a_header_is_never_read_from_a_pipe(tmp_path: Path) -> None:
    _pipe(tmp_path / "x.safetensors")
    with pytest.raises(InputError, match="E105"):
        read_header(tmp_path / "x.safetensors")


def test_folders_and_dangling_links_count_as_absent(tmp_path: Path) -> None:
    folder = write_config(tmp_path)
    save_file(llama_tensors(), folder / "tuned.safetensors")
    torch.save({}, folder / "training_args.bin")
    for name in ("LICENSES", "README.md", "model.safetensors"):
        (folder / name).mkdir()
    for name in ("LICENSE", "gone.safetensors", "tokenizer.json"):
        (folder / name).symlink_to("nowhere")
    source = resolve(str(folder))
    assert source.licence is None and source.tokenizer_files == ()


def test_a_licence_beyond_all_measure_is_not_read_whole(tmp_path: Path) -> None:
    folder = write_llama(tmp_path)
    for name in ("LICENSE", "README.md"):
        (folder / name).write_text("---\nlicense: other\n---\nMIT License" if name == "README.md" else "MIT License")
        os.truncate(folder / name, 1 << 40)
    assert resolve(str(folder)).licence == "other"
