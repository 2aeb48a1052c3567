"""Images and sounds as inputs: beside torchvision's and transformers' arithmetic written out, and what is refused."""

from __future__ import annotations

import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from edgec.bundle.input_preparation import ImagePreparation, SoundPreparation
from edgec.errors import InputError
from edgec.runtime_py.functions.prepared_inputs import (
    InputForm,
    check_fit,
    prepared_from,
    prepared_image,
    sound_windows,
    spread,
)

FORM = InputForm("x", (1, 3, 24, 32), "float32")
SOUND = InputForm("wave", (1, 1, 400), "float32")
RATE = 16_000
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def picture(width: int = 60, height: int = 40, seed: int = 0) -> Image.Image:
    values = np.random.default_rng(seed).integers(0, 256, (height // 4, width // 4, 3)).astype(np.uint8)
    return Image.fromarray(values).resize((width, height))


def how(**fields: Any) -> ImagePreparation:
    return ImagePreparation(kind="image", **fields)


def sound(file: Path, samples: np.ndarray[Any, np.dtype[Any]], rate: int = RATE) -> Path:
    with wave.open(str(file), "wb") as stream:
        stream.setnchannels(1)
        stream.setsampwidth(2)
        stream.setframerate(rate)
        stream.writeframes((samples * 32767).astype("<i2").tobytes())
    return file


def test_an_image_is_stretched_and_normalised(tmp_path: Path) -> None:
    picture().save(tmp_path / "a.png")
    found = prepared_image(tmp_path / "a.png", how(mean=MEAN, std=STD), FORM)
    small = np.asarray(picture().resize((32, 24), Image.Resampling.BILINEAR), np.float32) / 255
    wanted = ((small - np.asarray(MEAN, np.float32)) / np.asarray(STD, np.float32)).transpose(2, 0, 1)[None]
    assert found.shape == FORM.shape and found.dtype == np.float32
    # Multiplied by 1/255 and divided by 255 in float32: the last place, over a spread of 0.22.
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_orders_of_channels_and_of_axes() -> None:
    first = prepared_image(picture(), how(), FORM)
    swapped = prepared_image(picture(), how(colours="BGR"), FORM)
    np.testing.assert_array_equal(swapped, first[:, ::-1])
    last = prepared_image(picture(), how(channels="last"), InputForm("x", (24, 32, 3), "float16"))
    np.testing.assert_allclose(last, first[0].transpose(1, 2, 0), atol=5e-4)  # float16's last place of 1
    grey = prepared_image(picture(), how(colours="grey"), InputForm("x", (1, 24, 32), "float32"))
    wanted = np.asarray(picture().resize((32, 24), Image.Resampling.BILINEAR).convert("L")) / 255
    np.testing.assert_allclose(grey[0], wanted, atol=1e-6)


def test_cover_and_contain_keep_proportions() -> None:
    square = InputForm("x", (1, 3, 32, 32), "uint8")
    raw = {"scale": 1.0, "resample": "bicubic"}
    covered = prepared_image(picture(), how(fit="cover", edge=36, **raw), square)
    scaled = picture().resize((54, 36), Image.Resampling.BICUBIC).crop((11, 2, 43, 34))
    np.testing.assert_array_equal(covered[0].transpose(1, 2, 0), np.asarray(scaled))
    held = prepared_image(picture(), how(fit="contain", colour=[9, 8, 7], **raw), square)
    padded = ImageOps.pad(picture(), (32, 32), Image.Resampling.BICUBIC, (9, 8, 7))
    np.testing.assert_array_equal(held[0].transpose(1, 2, 0), np.asarray(padded))
    assert held[0, :, 0, 0].tolist() == [9, 8, 7]


@pytest.mark.parametrize(
    ("declared", "form"),
    [
        (how(), InputForm("x", (1, 1, 24, 32), "float32")),
        (how(colours="grey"), FORM),
        (how(channels="last"), FORM),
        (how(), InputForm("x", (2, 3, 24, 32), "float32")),
        (how(), InputForm("x", (1, 16000), "float32")),
        (how(), InputForm("x", (1, 3, 24, 32), "int64")),
        (how(), InputForm("x", (1, 3, 24, 32), "uint8")),
        (SoundPreparation(kind="sound", rate=RATE), FORM),
        (SoundPreparation(kind="sound", rate=RATE), InputForm("x", (1, 400), "int16")),
        (SoundPreparation(kind="sound", rate=RATE), InputForm("x", (2, 400), "float32")),
    ],
)
def test_inputs_that_cannot_hold_them_are_refused(declared: Any, form: InputForm) -> None:
    with pytest.raises(InputError) as refused:
        check_fit(declared, form)
    assert refused.value.code == "E851" and form.name in refused.value.what


def test_a_sound_gives_windows_from_everywhere(tmp_path: Path) -> None:
    ramp = np.arange(4_050) / 5_000
    file, declared = sound(tmp_path / "a.wav", ramp), SoundPreparation(kind="sound", rate=RATE, step=100, scale=2)
    windows, count = sound_windows(file, declared, SOUND, 5)
    assert count == 37 and len(windows) == 5 and all(window.shape == SOUND.shape for window in windows)
    begins = [float(window[0, 0, 0]) / 2 * 5_000 for window in windows]
    # Steps of 16-bit integers, of which one is 1/32,768: 0.15 samples of the ramp, and the writer cuts off.
    np.testing.assert_allclose(begins, [0, 700, 1400, 2200, 2900], atol=0.6)


def test_a_short_sound_gets_zeros_and_levels_are_a_windows_own(tmp_path: Path) -> None:
    file = sound(tmp_path / "a.wav", 0.1 + 0.05 * np.sin(np.arange(250)))
    (window,), count = sound_windows(file, SoundPreparation(kind="sound", rate=RATE), SOUND, 9)
    assert count == 1 and not window[..., 250:].any() and window[..., :250].all()
    level = SoundPreparation(kind="sound", rate=RATE, level="mean_and_spread")
    (window,), _ = sound_windows(file, level, SOUND, 9)
    assert abs(float(window.mean())) < 1e-5 and abs(float(window.std()) - 1) < 1e-5
    (silent,), _ = sound_windows(sound(tmp_path / "b.wav", np.zeros(400)), level, SOUND, 9)
    assert not silent.any()


def test_sounds_that_cannot_be_read_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declared, samples = SoundPreparation(kind="sound", rate=RATE), np.zeros(800)
    whole = sound(tmp_path / "a.wav", samples).read_bytes()
    (tmp_path / "cut.wav").write_bytes(whole[:-100])
    (tmp_path / "text.wav").write_text("not a sound")
    files = {
        "E177": [tmp_path / "cut.wav", tmp_path / "text.wav", tmp_path / "absent.wav"],
        "E178": [sound(tmp_path / "rate.wav", samples, 44_100), sound(tmp_path / "empty.wav", np.zeros(0))],
    }
    long = sound(tmp_path / "long.wav", np.zeros(100 * 601), 100)
    monkeypatch.setattr(
        "edgec.runtime_py.functions.prepared_inputs.read_sound", lambda *_: pytest.fail("samples were read")
    )
    for code, named in files.items():
        for file in named:
            with pytest.raises(InputError) as refused:
                sound_windows(file, declared, SOUND, 4)
            assert refused.value.code == code and file.name in refused.value.where
    with pytest.raises(InputError) as refused:
        sound_windows(long, SoundPreparation(kind="sound", rate=100), SOUND, 4)
    assert refused.value.code == "E853"


def test_a_bundle_is_given_one_window(tmp_path: Path) -> None:
    declared = SoundPreparation(kind="sound", rate=RATE)
    file = sound(tmp_path / "a.wav", 0.5 * np.ones(400))
    assert prepared_from(str(file), declared, *(SOUND.name, SOUND.shape, SOUND.dtype)).shape == SOUND.shape
    with pytest.raises(InputError) as refused:
        prepared_from(sound(tmp_path / "b.wav", np.ones(800)), declared, *(SOUND.name, SOUND.shape, SOUND.dtype))
    assert refused.value.code == "E853"


def test_values_are_taken_from_everywhere() -> None:
    assert spread(range(10), 3) == [0, 3, 6] and spread(range(3), 5) == [0, 1, 2] and spread([], 4) == []
