"""WAV files and their features: against the standard library's writer and transformers' feature extractor."""

from __future__ import annotations

import struct
import wave
from pathlib import Path

import numpy as np
import pytest

from edgec.bundle.entry_points import SoundInfo
from edgec.errors import InputError
from edgec.runtime_py.encoder_decoder.log_mel import log_mel
from edgec.runtime_py.media.sound_file import LONGEST_S, check_samples, read_sound

RATE = 16_000
TONE = (np.sin(np.arange(4000) * 0.07) * 0.6).astype(np.float32)


def write(path: Path, frames: bytes, width: int = 2, channels: int = 1, rate: int = RATE) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(frames)
    return path


def pcm(width: int) -> bytes:
    if width == 1:
        result: bytes = (TONE * 127 + 128).astype(np.uint8).tobytes()
        return result
    wide = (TONE.astype(np.float64) * (2**31 - 1)).astype("<i4")
    made: bytes = wide.view(np.uint8).reshape(-1, 4)[:, 4 - width :].tobytes()
    return made


def header(kind: int, bits: int, channels: int, rate: int, data: int, riff: bytes = b"RIFF") -> bytes:
    form = struct.pack("<HHIIHH", kind, channels, rate, rate * channels * bits // 8, channels * bits // 8, bits)
    return (
        riff
        + struct.pack("<I", 36 + data)
        + b"WAVEfmt "
        + struct.pack("<I", 16)
        + form
        + b"data"
        + struct.pack("<I", data)
    )


@pytest.mark.parametrize(("width", "tolerance"), [(1, 1.6e-2), (2, 6.2e-5), (3, 1e-6), (4, 1e-6)])
def test_integers_of_every_width_are_read(width: int, tolerance: float, tmp_path: Path) -> None:
    # Two steps of the integers: the writer cuts off, and its largest integer is not the scale; float32 rounds too.
    np.testing.assert_allclose(read_sound(write(tmp_path / "a.wav", pcm(width), width), RATE), TONE, atol=tolerance)


def test_floats_are_read_and_channels_are_averaged(tmp_path: Path) -> None:
    both = np.stack([TONE, -TONE / 2], 1).astype("<f4").tobytes()
    (tmp_path / "a.wav").write_bytes(header(3, 32, 2, RATE, len(both)) + both)
    np.testing.assert_allclose(read_sound(tmp_path / "a.wav", RATE), TONE / 4, atol=1e-7)


def test_other_chunks_are_passed_over(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.wav", pcm(2)).read_bytes()
    (tmp_path / "b.wav").write_bytes(whole[:12] + b"LIST" + struct.pack("<I", 3) + b"abc\0" + whole[12:])
    np.testing.assert_array_equal(read_sound(tmp_path / "b.wav", RATE), read_sound(tmp_path / "a.wav", RATE))


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "E177"),
        (b"ID3\x04 this is music, but no WAV file at all", "E177"),
        (header(1, 16, 1, RATE, 8)[:30], "E177"),
        (header(1, 16, 1, RATE, 8)[:36], "E177"),
        (header(1, 16, 1, RATE, 4_000_000_000) + b"\0" * 64, "E177"),
        (header(1, 12, 1, RATE, 8) + b"\0" * 8, "E177"),
        (header(1, 16, 0, RATE, 8) + b"\0" * 8, "E177"),
        (header(1, 16, 1, 0, 8) + b"\0" * 8, "E177"),
        (header(1, 16, 1, RATE, 8, b"RIFX") + b"\0" * 8, "E177"),
        (header(1, 16, 1, RATE, 0), "E178"),
        (header(1, 16, 1, 44_100, 8) + b"\0" * 8, "E178"),
    ],
)
def test_what_is_no_sound_is_refused(content: bytes, code: str, tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(content)
    with pytest.raises(InputError) as error:
        read_sound(tmp_path / "a.wav", RATE)
    assert error.value.code == code


def test_ten_hours_are_refused_by_their_header_without_being_read(tmp_path: Path) -> None:
    length = 10 * 3600 * RATE * 2
    with (tmp_path / "a.wav").open("wb") as file:
        file.write(header(1, 16, 1, RATE, length))
        file.truncate(44 + length)
    with pytest.raises(InputError) as error:
        read_sound(tmp_path / "a.wav", RATE)
    assert error.value.code == "E178" and "10.0 hours" in error.value.what


@pytest.mark.parametrize(
    ("samples", "code"),
    [
        (np.zeros(0, np.float32), "E178"),
        (np.full(8, np.nan, np.float32), "E178"),
        (np.zeros((2, 8), np.float32), "E152"),
        (np.zeros(8, np.int16), "E152"),
        (np.broadcast_to(np.float32(0), LONGEST_S * RATE + 1), "E178"),
    ],
)
def test_samples_without_speech_are_refused(samples: np.ndarray, code: str) -> None:
    with pytest.raises(InputError) as error:
        check_samples(samples, RATE)
    assert error.value.code == code


@pytest.mark.parametrize("mels", [80, 128])
@pytest.mark.parametrize("count", [1, 4000, 480_000, 500_000])
def test_features_are_those_of_transformers_extractor(mels: int, count: int) -> None:
    from transformers import WhisperFeatureExtractor

    samples = np.random.default_rng(count).normal(0, 0.1, count).astype(np.float32)
    sound = SoundInfo(sampling_rate=RATE, mels=mels, frames=3000, fft=400, hop=160)
    wanted = WhisperFeatureExtractor(feature_size=mels)(samples, sampling_rate=RATE, return_tensors="np")
    # The same sums of float64 there and here; their torch path differs by 1e-5.
    np.testing.assert_allclose(log_mel(samples, sound), wanted.input_features, atol=1e-4)
