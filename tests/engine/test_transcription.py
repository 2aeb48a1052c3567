"""The runner's sounds and features against Python's and transformers', and its text of speech against Python's."""

from __future__ import annotations

import json
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

import edgec
from edgec.engine.compile.build import build_runner
from edgec.errors import InputError
from edgec.runtime_py.encoder_decoder.sound_file import LONGEST_S, read_sound
from edgec.runtime_py.encoder_decoder.token_rules import TimestampRules
from edgec.runtime_py.encoder_decoder.transcription import _cut
from tests.encoder_decoders import FIRST_TIMESTAMP
from tests.engine.compiled import compiled
from tests.engine.test_runner import run_runner
from tests.speech_bundles import SWEEP, audio_bundle, timed_bundle, wav, write_wav

RATE, PLAIN = 16_000, FIRST_TIMESTAMP - 1
NOISE = np.random.default_rng(1).normal(0, 0.2, 20_000).astype(np.float32)


@pytest.fixture(scope="module")
def entry() -> Path:
    """The runner's readers as a program of their own."""
    return compiled("sound_entry")


def floats(*words: object) -> np.ndarray:
    done = subprocess.run([str(word) for word in words], capture_output=True, check=True)
    return np.frombuffer(done.stdout, np.float32)


@pytest.mark.parametrize("channels", [1, 2, 8])
@pytest.mark.parametrize(("kind", "bits"), [(1, 8), (1, 16), (1, 24), (1, 32), (3, 32), (0xFFFE, 24)])
def test_a_sound_is_what_python_reads(entry: Path, tmp_path: Path, kind: int, bits: int, channels: int) -> None:
    data = NOISE.tobytes() if kind == 3 else np.random.default_rng(bits).bytes(24_000)
    (tmp_path / "a.wav").write_bytes(wav(data, kind=kind, bits=bits, channels=channels))
    # The same float32 values; the sum of eight channels may be taken in another order.
    np.testing.assert_allclose(
        floats(entry, tmp_path / "a.wav", RATE), read_sound(tmp_path / "a.wav", RATE), atol=0 if channels < 8 else 1e-6
    )


BAD = {
    "nothing": b"",
    "music": b"ID3\x04 this is music, but no WAV file at all",
    "a cut header": wav(b"\0" * 64)[:30],
    "no samples": wav(b"\0" * 64)[:36],
    "an empty sound": wav(b""),
    "less than is announced": wav(b"\0" * 64)[:-2],
    "a stream's length": wav(b"\0" * 64, announced=0xFFFFFFFF),
    "12 bits": wav(b"\0" * 64, bits=12),
    "no channel": wav(b"\0" * 64, channels=0),
    "nine channels": wav(b"\0" * 64, channels=9),
    "no rate": wav(b"\0" * 64, rate=0),
    "another rate": wav(b"\0" * 64, rate=44_100),
    "another order of bytes": b"RIFX" + wav(b"\0" * 64)[4:],
    "compressed": wav(b"\0" * 64, kind=2),
    "samples first": wav(b"\0" * 64).replace(b"fmt ", b"fmt_"),
    "chunks without end": wav(b"")[:12] + (b"LIST" + struct.pack("<I", 0xFFFFFFFF)) * 3,
}


@pytest.mark.parametrize("name", BAD)
def test_what_python_refuses_is_refused(entry: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "a.wav").write_bytes(BAD[name])
    with pytest.raises(InputError) as refused:
        read_sound(tmp_path / "a.wav", RATE)
    assert refused.value.code in ("E177", "E178")
    done = subprocess.run([entry, tmp_path / "a.wav", str(RATE)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "") and done.stderr.startswith("error: the sound cannot be read: ")


def test_ten_hours_are_refused_without_memory_for_them(entry: Path, tmp_path: Path) -> None:
    count = 10 * 3600 * RATE * 2
    with (tmp_path / "a.wav").open("wb") as file:
        file.write(wav(b"", announced=count))
        file.truncate(44 + count)
    # 64 MB of address space hold the program, but not the sound's 1.2 GB.
    line = f"ulimit -v 65536; exec {entry} {tmp_path / 'a.wav'} {RATE}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "four hours" in done.stderr and LONGEST_S < 10 * 3600


@pytest.mark.parametrize(("mels", "frames"), [(80, 3000), (128, 3000), (16, 100)])
@pytest.mark.parametrize("count", [1, 4000, 480_000])
def test_features_are_those_of_transformers_extractor(
    entry: Path, tmp_path: Path, mels: int, frames: int, count: int
) -> None:
    from transformers import WhisperFeatureExtractor

    samples = np.random.default_rng(count).normal(0, 0.1, min(count, frames * 160)).astype("<f4")
    (tmp_path / "a.wav").write_bytes(wav(samples.tobytes(), kind=3, bits=32))
    made = floats(entry, tmp_path / "a.wav", RATE, mels, frames, 400, 160).reshape(1, mels, frames)
    extractor = WhisperFeatureExtractor(feature_size=mels, chunk_length=frames // 100)
    wanted = extractor(samples, sampling_rate=RATE, return_tensors="np").input_features
    # The same sums of float64; transformers rounds the spectrum to complex64, and its torch path differs by 1e-5.
    np.testing.assert_allclose(made, wanted, atol=1e-4)


@pytest.mark.parametrize("shape", [(80, 3000, 401, 160), (80, 0, 400, 160), (513, 10, 400, 160), (80, 1 << 40, 400, 1)])
def test_features_beyond_the_limits_are_refused(entry: Path, tmp_path: Path, shape: tuple[int, ...]) -> None:
    (tmp_path / "a.wav").write_bytes(wav(b"\0" * 64))
    line = [str(entry), str(tmp_path / "a.wav"), str(RATE), *map(str, shape)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "beyond what the runner makes" in done.stderr


FIRST, VOCABULARY = 41, 64


def said_of(choose: np.random.Generator) -> list[int]:
    """Tokens in which timestamps are as frequent as others, alone, in pairs and in rows."""
    return [int(token) for token in choose.integers(FIRST - 24, VOCABULARY, choose.integers(0, 9))]


def test_timestamps_are_allowed_and_cut_a_window_as_in_python() -> None:
    made = compiled("timestamp_entry")
    choose, lines = np.random.default_rng(3), list[str]()
    wanted: list[tuple[list[int], int, list[float]]] = []
    for case in range(400):
        latest, length = (None, 6)[case % 2], int(choose.integers(1, 16_000))
        rules = TimestampRules(FIRST, FIRST - 1, 30, latest)
        said, logits = said_of(choose), choose.normal(0, 4, VOCABULARY).astype(np.float32)
        numbers = [FIRST, FIRST - 1, 30, -1 if latest is None else latest, length, 320, len(said), *said, VOCABULARY]
        lines.append(" ".join(map(str, numbers)) + " " + " ".join(f"{float(logit):.9g}" for logit in logits))
        cut = _cut(said, rules, length, 320)
        forbidden = np.flatnonzero(np.isinf(rules.applied(logits, said))).tolist()
        pieces = [[float(first), float(last), len(tokens)] for first, last, tokens in cut.pieces]
        wanted.append((forbidden, cut.samples, [value for piece in pieces for value in piece]))
    done = subprocess.run([made], input="\n".join(lines), capture_output=True, text=True, check=True).stdout
    rows = done.splitlines()
    for (forbidden, samples, flat), ids, cut_row in zip(wanted, rows[::2], rows[1::2], strict=True):
        assert [int(token) for token in ids.split()] == forbidden
        # A window's length in steps is printed with six digits.
        assert [float(number) for number in cut_row.split()] == pytest.approx([samples, *flat], rel=1e-5)
    assert len({samples for _, samples, _ in wanted}) > 100 and max(len(flat) for _, _, flat in wanted) >= 9


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "de", None])
def test_the_runner_writes_what_python_writes(tmp_path: Path, language: str | None) -> None:
    bundle, sound = timed_bundle(), write_wav(tmp_path / "a.wav", SWEEP)
    wanted = edgec.load(bundle).transcribe(sound, language=language, timestamps=False)
    options = [] if language is None else ["--language", language]
    _, *windows = run_runner("--bundle", bundle, "--audio", sound, "--packed", tmp_path / "packed", *options)
    assert [window["tokens"] for window in windows] == [list(segment.tokens) for segment in wanted.segments]
    assert len({tuple(window["tokens"]) for window in windows}) > 1 and len(windows) == 4
    assert [(window["start_s"], window["end_s"]) for window in windows] == [(0, 1), (1, 2), (2, 3), (3, 3.5)]
    assert all(min(window[name] for name in ("features_ms", "encode_ms", "write_ms")) > 0 for window in windows)


def bursts(seed: int) -> np.ndarray:
    """3.5 s of noise, every 62.5 ms of another loudness."""
    drawn = np.random.default_rng(seed)
    return (drawn.normal(0, 0.5, 56_000) * np.repeat(drawn.uniform(0, 1, 56), 1000)).astype(np.float32)


# Segments, and windows. After a finished sentence the next window begins in the middle of a second.
TIMED = {
    "one in each window": (SWEEP, None, 4, 4),
    "windows that begin after a sentence": (bursts(17), "en", 7, 7),
    "two in a window": (bursts(131), "en", 6, 5),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TIMED)
def test_the_runner_says_when_as_python_does(tmp_path: Path, name: str) -> None:
    samples, language, segments, windows = TIMED[name]
    bundle, sound = timed_bundle(), write_wav(tmp_path / "a.wav", samples)
    wanted = edgec.load(bundle).transcribe(sound, language=language, timestamps=True)
    options = [] if language is None else ["--language", language]
    arguments = ("--bundle", bundle, "--audio", sound, "--packed", tmp_path / "packed", "--timestamps", *options)
    _, *said = run_runner(*arguments)
    assert [segment["tokens"] for segment in said] == [list(segment.tokens) for segment in wanted.segments]
    # Six digits are printed.
    assert [segment["start_s"] for segment in said] == pytest.approx([s.start_s for s in wanted.segments], abs=1e-5)
    assert [segment["end_s"] for segment in said] == pytest.approx([s.end_s for s in wanted.segments], abs=1e-5)
    assert PLAIN not in said[0]["prompt"] and any(token >= FIRST_TIMESTAMP for token in said[0]["tokens"])
    assert len(said) == segments and any(segment["end_s"] % 1 for segment in said)
    assert sum(segment["encode_ms"] > 0 for segment in said) == windows
    assert all(sum(segment[part] for segment in said) > 0 for part in ("features_ms", "encode_ms", "write_ms"))


@pytest.mark.slow
def test_the_length_of_each_window_s_text_and_its_first_tokens_can_be_given(tmp_path: Path) -> None:
    sound = write_wav(tmp_path / "a.wav", SWEEP[:RATE])
    arguments = ("--bundle", timed_bundle(), "--audio", sound, "--new-tokens", 3)
    (short,) = run_runner(*arguments, "--language", "de")[1:]
    assert short["prompt"] == [31, 33, 35, 40] and len(short["tokens"]) == 3
    assert run_runner(*arguments, "--tokens", "31,33,35,40")[1]["tokens"] == short["tokens"]


@pytest.mark.slow
@pytest.mark.parametrize("count", [100, 40_000])
def test_a_waveform_is_written_as_python_writes_it(tmp_path: Path, count: int) -> None:
    bundle, sound = audio_bundle("moonshine"), write_wav(tmp_path / "a.wav", SWEEP[:count])
    wanted = edgec.load(bundle).transcribe(sound, max_new_tokens=24)
    (window,) = run_runner("--bundle", bundle, "--audio", sound, "--new-tokens", 24)[1:]
    assert window["tokens"] == list(wanted.segments[0].tokens) and window["tokens"]
    assert (window["prompt"], window["start_s"], window["end_s"]) == ([1], 0, count / RATE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("fewest_samples", 0, "beyond what the runner reads"),
        ("fewest_samples", 480_001, "beyond what the runner reads"),
        ("window_samples", 1 << 30, "beyond what the runner reads"),
        ("sampling_rate", None, "does not state"),
    ],
)
def test_a_waveform_beyond_the_limits_is_refused(tmp_path: Path, field: str, value: int | None, why: str) -> None:
    bundle = audio_bundle("moonshine")
    for file in bundle.iterdir():
        (tmp_path / file.name).symlink_to(file)
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["encoder_decoder"]["waveform"][field] = value
    (tmp_path / "manifest.json").unlink()
    (tmp_path / "manifest.json").write_text(json.dumps(manifest, indent=2))
    line = [str(build_runner().runner), "--bundle", str(tmp_path), "--audio", str(write_wav(tmp_path / "a.wav", SWEEP))]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and why in done.stderr, done.stderr


@pytest.mark.slow
def test_what_makes_no_sense_is_refused(tiny_bundle: Path, tmp_path: Path) -> None:
    sound, bundle = write_wav(tmp_path / "a.wav", SWEEP), timed_bundle()
    refused = {
        "needs a bundle that reads sound": ("--bundle", tiny_bundle, "--audio", sound),
        "does not know the language": ("--bundle", bundle, "--audio", sound, "--language", "xx"),
        "--audio needs --bundle": ("--model", bundle / "model.pte", "--audio", sound),
        "--language needs --audio": ("--bundle", bundle, "--language", "en", "--tokens", "1"),
        "no such file": ("--bundle", bundle, "--audio", tmp_path / "none.wav"),
        "--timestamps needs --audio": ("--bundle", bundle, "--timestamps", "--tokens", "1"),
        "the model has no timestamps": ("--bundle", audio_bundle("moonshine"), "--audio", sound, "--timestamps"),
    }
    for why, words in refused.items():
        line = [str(build_runner().runner), *map(str, words)]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.returncode == 1 and why in done.stderr, (why, done.stderr)
