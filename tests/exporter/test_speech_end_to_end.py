"""Speech through ``edgec.export`` and ``edgec run --audio``: the tokens that transformers' own model says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import edgec
from edgec.bundle.folder import open_bundle
from edgec.errors import InputError
from edgec.runtime_py.verify.verify import verify
from tests.cli.test_run import invoke
from tests.encoder_decoders import FIRST_TIMESTAMP, greedy_text, tiny_encoder_decoder
from tests.speech_bundles import RATE, SWEEP, audio_bundle, spoken, timed_bundle, write_wav

pytestmark = pytest.mark.slow
EN, DE, TRANSCRIBE, TRANSLATE, START, PLAIN, EOS = 32, 33, 35, 34, 31, 40, 30
# Samples of a step of the timestamps.
STEP = 320


def features(samples: np.ndarray) -> torch.Tensor:
    from transformers import WhisperFeatureExtractor

    extractor = WhisperFeatureExtractor(feature_size=16, chunk_length=1)
    made: torch.Tensor = extractor(samples, sampling_rate=RATE, return_tensors="pt").input_features
    return made


def said_by_transformers(samples: np.ndarray, prompt: Sequence[int], count: int) -> list[int]:
    """The greedy tokens after one window, by transformers' model and its rules for logits."""
    from transformers import generation

    model, begin = tiny_encoder_decoder("timed"), len(prompt)
    config = model.generation_config
    rules: list[Any] = [
        generation.SuppressTokensAtBeginLogitsProcessor(config.begin_suppress_tokens, begin),
        generation.SuppressTokensLogitsProcessor(config.suppress_tokens),
    ]
    if PLAIN not in prompt:
        rules.append(generation.WhisperTimeStampLogitsProcessor(config, begin_index=begin))
    tokens, read = torch.tensor([list(prompt)]), features(samples)
    while tokens.shape[1] < begin + count and (tokens.shape[1] == begin or tokens[0, -1] != EOS):
        scores = model(input_features=read, decoder_input_ids=tokens).logits[:, -1]
        for rule in rules:
            scores = rule(tokens, scores)
        tokens = torch.cat([tokens, scores.argmax(-1, keepdim=True)], 1)
    return [token for token in tokens[0, begin:].tolist() if token != EOS]


def test_windows_with_timestamps_say_what_transformers_says() -> None:
    heard = edgec.load(timed_bundle()).transcribe(SWEEP, language="en", max_new_tokens=24)
    wanted: list[int] = []
    place = windows = 0
    while place < SWEEP.size:
        said = said_by_transformers(SWEEP[place : place + RATE], [START, EN, TRANSCRIBE], 24)
        # Where the window's last sentence is unfinished, the next window begins with it.
        pairs = [i + 1 for i in range(len(said) - 1) if min(said[i : i + 2]) >= FIRST_TIMESTAMP]
        whole = not pairs or said[-2] < FIRST_TIMESTAMP <= said[-1]
        kept = said if whole else said[: pairs[-1]]
        place += RATE if whole else (kept[-1] - FIRST_TIMESTAMP) * STEP or RATE
        wanted, windows = wanted + kept, windows + 1
    assert [token for segment in heard.segments for token in segment.tokens] == wanted
    assert windows >= 4 and any(token >= FIRST_TIMESTAMP for token in wanted)
    assert heard.language == "<|en|>" and heard.sound_s == 3.5


@pytest.mark.parametrize(("language", "task"), [("en", "transcribe"), ("de", "translate")])
def test_windows_without_timestamps_say_what_transformers_says(language: str, task: str) -> None:
    heard = edgec.load(timed_bundle()).transcribe(
        SWEEP, language=language, task=task, timestamps=False, max_new_tokens=24
    )
    prompt = [START, {"en": EN, "de": DE}[language], {"transcribe": TRANSCRIBE, "translate": TRANSLATE}[task], PLAIN]
    for segment, place in zip(heard.segments, range(0, SWEEP.size, RATE), strict=True):
        wanted = said_by_transformers(SWEEP[place : place + RATE], prompt, 24)
        assert list(segment.tokens) == wanted and wanted


def test_the_language_is_the_one_that_transformers_detects() -> None:
    model = tiny_encoder_decoder("timed")
    detected = int(model.detect_language(input_features=features(SWEEP[:RATE]))[0])
    heard = edgec.load(timed_bundle()).transcribe(SWEEP[:RATE], max_new_tokens=2)
    assert heard.language == {EN: "<|en|>", DE: "<|de|>"}[detected]


def test_the_command_prints_each_segment_with_its_times_or_one_json_object(tmp_path: Path) -> None:
    bundle, sound = timed_bundle(), write_wav(tmp_path / "a.wav", SWEEP)
    wanted = edgec.load(bundle).transcribe(sound, language="de", max_new_tokens=12)
    options = [str(bundle), "--audio", str(sound), "--language", "de", "--max-new-tokens", "12"]
    printed = invoke(*options)
    assert printed.exit_code == 0, printed.exception
    lines = printed.stdout.splitlines()
    assert [line.partition("] ")[2] for line in lines] == [segment.text.strip() for segment in wanted.segments]
    assert all(line.startswith("[00:0") for line in lines)
    assert "3.5 s of sound" in printed.stderr and "language <|de|>" in printed.stderr
    told = json.loads(invoke(*options, "--json").stdout)
    assert told["segments"] == [
        {"start_s": s.start_s, "end_s": s.end_s, "text": s.text, "tokens": list(s.tokens)} for s in wanted.segments
    ]
    assert (told["language"], told["sound_s"], told["obtained"]) == ("<|de|>", 3.5, "measured")


def test_what_the_command_cannot_transcribe_is_refused(tmp_path: Path, tiny_bundle: Path) -> None:
    sound, quiet = write_wav(tmp_path / "a.wav", SWEEP), write_wav(tmp_path / "empty.wav", SWEEP[:0])
    slow, text = write_wav(tmp_path / "slow.wav", SWEEP, 8000), tmp_path / "a.txt"
    text.write_text("this is not a sound")
    audio = str(timed_bundle())
    refused = {
        ("E753", (str(tiny_bundle), "--audio", str(sound))),
        ("E156", (audio, "--audio", str(sound), "--audio", str(sound))),
        ("E156", (audio, "-p", "some text")),
        ("E156", (audio, "-p", "some text", "--audio", str(sound))),
        ("E156", (audio, "--audio", str(sound), "--chat")),
        ("E156", (audio, "--audio", str(sound), "--language", "xx")),
        ("E156", (audio, "--audio", str(sound), "--task", "sing")),
        ("E177", (audio, "--audio", str(tmp_path / "none.wav"))),
        ("E177", (audio, "--audio", str(tmp_path))),
        ("E177", (audio, "--audio", str(text))),
        ("E178", (audio, "--audio", str(quiet))),
        ("E178", (audio, "--audio", str(slow))),
    }
    for code, words in refused:
        error = invoke(*words).exception
        assert isinstance(error, InputError) and error.code == code, (words, error)


@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng is not installed")
def test_spoken_text_is_heard_as_transformers_hears_it(tmp_path: Path) -> None:
    file, samples = spoken("The quick brown fox jumps over the lazy dog.", tmp_path)
    with pytest.raises(InputError) as refused:
        edgec.load(timed_bundle()).transcribe(file)
    assert refused.value.code == "E178" and "22,050" in refused.value.what
    heard = edgec.load(timed_bundle()).transcribe(
        write_wav(tmp_path / "a.wav", samples), language="en", timestamps=False, max_new_tokens=16
    )
    assert len(heard.segments) == -(-samples.size // RATE) > 1
    for segment, place in zip(heard.segments, range(0, samples.size, RATE), strict=True):
        wanted = said_by_transformers(samples[place : place + RATE], [START, EN, TRANSCRIBE, PLAIN], 16)
        assert list(segment.tokens) == wanted


@pytest.mark.parametrize("count", [1279, 9001, 40_000])
def test_a_waveform_is_written_as_transformers_writes_it(count: int) -> None:
    samples = SWEEP[:count]
    heard = edgec.load(audio_bundle("moonshine")).transcribe(samples, max_new_tokens=24)
    wanted = greedy_text(tiny_encoder_decoder("moonshine"), torch.from_numpy(samples)[None], 24)
    (segment,) = heard.segments
    assert list(segment.tokens) == [token for token in wanted[1:] if token != 2] and segment.tokens
    assert (segment.start_s, segment.end_s) == (0.0, count / RATE)


def test_a_bundle_that_reads_a_waveform_says_so_and_verifies() -> None:
    bundle = audio_bundle("moonshine")
    info = open_bundle(bundle).manifest.encoder_decoder
    assert info is not None and info.waveform is not None and info.sound is None and info.source_tokens is None
    assert (info.waveform.fewest_samples, info.waveform.window_samples) == (1279, 30 * RATE)
    assert verify(bundle).passed
