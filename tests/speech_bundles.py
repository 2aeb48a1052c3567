"""Sounds as WAV files, and tiny random bundles that hear, each exported once."""

from __future__ import annotations

import struct
import subprocess
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np

import edgec
from tests.encoder_decoders import VOCABULARY, save_encoder_decoder

RATE, ESPEAK_RATE = 16_000, 22_050
_COUNT = 56_000
# 3.5 s of a tone that rises and grows over noise, so that windows differ.
SWEEP = (
    np.sin(np.arange(_COUNT) * 0.05 * (1 + np.arange(_COUNT) / _COUNT)) * np.linspace(0.1, 0.9, _COUNT)
    + np.random.default_rng(0).normal(0, 0.02, _COUNT)
).astype(np.float32)


def wav(
    data: bytes,
    *,
    kind: int = 1,
    bits: int = 16,
    channels: int = 1,
    rate: int = RATE,
    announced: int | None = None,
) -> bytes:
    """A WAV file's bytes; ``announced``: the size that it states of its samples, the true one by default."""
    frame = channels * bits // 8
    form = struct.pack("<HHIIHH", kind, channels, rate, rate * frame % (1 << 32), frame, bits)
    if kind == 0xFFFE:
        form += struct.pack("<HHIH", 22, bits, 0, 1) + bytes(14)
    size = len(data) if announced is None else announced
    head = b"RIFF" + struct.pack("<I", min(28 + len(form) + size, 0xFFFFFFFF)) + b"WAVEfmt "
    return head + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", size) + data


def write_wav(path: Path, samples: np.ndarray, rate: int = RATE) -> Path:
    """A WAV file of 32-bit floats with these samples."""
    path.write_bytes(wav(samples.astype("<f4").tobytes(), kind=3, bits=32, rate=rate))
    return path


def spoken(text: str, folder: Path) -> tuple[Path, np.ndarray]:
    """The file of 22,050 Hz that espeak-ng says a text into, and its samples at ``RATE``."""
    from edgec.runtime_py.media.sound_file import read_sound

    file = folder / "spoken.wav"
    subprocess.run(["espeak-ng", "-w", file, text], check=True)
    own = read_sound(file, ESPEAK_RATE)
    places = np.arange(own.size * RATE // ESPEAK_RATE) * ESPEAK_RATE / RATE
    return file, np.interp(places, np.arange(own.size), own).astype(np.float32)


def save_word_tokenizer(folder: Path) -> None:
    """A tokenizer whose every token is a word of its own: token 7 is ``w7``."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel({f"w{token}": token for token in range(VOCABULARY)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)


@lru_cache(maxsize=4)
def audio_bundle(family: str, target: str = "host", **options: Any) -> Path:
    """A float bundle of a family that hears, with a tokenizer; ``options``: of the export."""
    folder = save_encoder_decoder(family, Path(mkdtemp(prefix="edgec-")) / family)
    save_word_tokenizer(folder)
    return edgec.export(folder, target=target, recipe="float", out=folder.parent / "x.edgec", **options)


def timed_bundle() -> Path:
    """A bundle of Whisper's kind with languages, tasks and timestamps: windows of a second, 64 tokens each."""
    return audio_bundle("timed")
