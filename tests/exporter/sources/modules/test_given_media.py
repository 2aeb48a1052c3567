"""Images and sounds of ``--inputs``: a row of inputs each, by what the factory declares; the rest is refused."""

from __future__ import annotations

import wave
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from edgec.bundle.input_preparation import ImagePreparation, SoundPreparation
from edgec.errors import InputError
from edgec.exporter.sources.modules.given_inputs import MOST_EXAMPLES, bind_inputs, read_inputs

PICTURE, SOUND = ImagePreparation(kind="image"), SoundPreparation(kind="sound", rate=8_000)
NAMES, EXAMPLES = ("x", "state"), (torch.zeros(1, 3, 8, 8), torch.full((1, 4), 7.0))
Declared = Mapping[str, ImagePreparation | SoundPreparation]


def photographs(folder: Path, count: int, suffix: str = ".png") -> Path:
    folder.mkdir(exist_ok=True)
    for index in range(count):
        pixels = np.random.default_rng(index).integers(0, 256, (9, 12, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{index:03}{suffix}")
    return folder


def recording(file: Path, samples: int) -> Path:
    with wave.open(str(file), "wb") as stream:
        stream.setnchannels(1)
        stream.setsampwidth(2)
        stream.setframerate(8_000)
        drawn = np.random.default_rng(0).integers(-9_000, 9_000, samples)
        stream.writeframes(drawn.astype("<i2").tobytes())
    return file


def bound(
    place: Path, declared: Declared, names: Any = NAMES, examples: Any = EXAMPLES
) -> tuple[tuple[tuple[Tensor, ...], ...], int]:
    return bind_inputs(read_inputs(place, declared), names, examples)


def test_a_folder_of_images_is_an_example_each(tmp_path: Path) -> None:
    folder = photographs(tmp_path / "photos", 3)
    photographs(folder, 2, ".JPG")
    (folder / "notes.txt").write_text("not an example")
    calls, count = bound(folder, {"x": PICTURE})
    assert count == len(calls) == 5
    for x, state in calls:
        assert x.shape == (1, 3, 8, 8) and 0 <= float(x.min()) < float(x.max()) <= 1
        assert state is EXAMPLES[1]


def test_arrays_and_images_may_lie_beside_each_other(tmp_path: Path) -> None:
    folder = photographs(tmp_path / "photos", 2)
    np.savez(folder / "more.npz", x=np.random.default_rng(0).random((3, 3, 8, 8)), state=np.ones((3, 4)))
    calls, count = bound(folder, {"x": PICTURE})
    assert count == 5 and [float(state[0, 0]) for _, state in calls] == [7, 7, 1, 1, 1]


def test_of_many_images_some_from_everywhere_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = photographs(tmp_path / "photos", 2 * MOST_EXAMPLES)
    read: list[Path] = []

    def prepared(file: Path, *_: Any) -> Any:
        read.append(file)
        return np.full((1, 3, 8, 8), len(read), np.float32) + np.arange(8, dtype=np.float32)

    monkeypatch.setattr("edgec.exporter.sources.modules.given_media.prepared_image", prepared)
    calls, count = bound(folder, {"x": PICTURE})
    assert count == 2 * MOST_EXAMPLES and len(calls) == MOST_EXAMPLES == len(read)
    assert [int(file.stem) for file in read] == list(range(0, 2 * MOST_EXAMPLES, 2))


def test_a_sound_is_cut_into_windows(tmp_path: Path) -> None:
    calls, count = bound(recording(tmp_path / "a.wav", 4_050), {"x": SOUND}, ("x",), (torch.zeros(1, 40),))
    assert count == 101 and len(calls) == MOST_EXAMPLES
    for index in range(40):
        (tmp_path / "voices").mkdir(exist_ok=True)
        recording(tmp_path / "voices" / f"{index}.wav", 400)
    calls, count = bound(tmp_path / "voices", {"x": SOUND}, ("x",), (torch.zeros(1, 40),))
    assert count == 400 and len(calls) == MOST_EXAMPLES


def test_the_digest_follows_files_and_declarations(tmp_path: Path) -> None:
    folder = photographs(tmp_path / "photos", 2)
    digests = {read_inputs(folder, {"x": PICTURE}).digest, read_inputs(folder, {}).digest}
    digests.add(read_inputs(folder, {"x": ImagePreparation(kind="image", mean=0.5)}).digest)
    photographs(folder, 3)
    digests.add(read_inputs(folder, {"x": PICTURE}).digest)
    assert len(digests) == 4


@pytest.mark.parametrize("declared", [{}, {"x": SOUND}, {"x": PICTURE, "state": PICTURE}])
def test_an_image_without_its_declaration_is_refused(declared: Declared, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        bound(photographs(tmp_path / "photos", 2), declared)
    assert refused.value.code == "E852" and "000.png" in refused.value.where


def test_damaged_files_are_refused_by_name(tmp_path: Path) -> None:
    folder = photographs(tmp_path / "photos", 3)
    (folder / "001.png").write_bytes((folder / "001.png").read_bytes()[:60])
    with pytest.raises(InputError) as refused:
        bound(folder, {"x": PICTURE})
    assert refused.value.code == "E653" and "001.png" in refused.value.where


def test_one_image_alone_says_too_little(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        bound(photographs(tmp_path / "photos", 1), {"x": PICTURE})
    assert refused.value.code == "E837"
