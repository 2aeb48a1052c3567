"""Prompts with sound: the tokens and features of transformers' own processors, and sounds that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.bundle.audio_language import AudioLanguageInfo
from edgec.bundle.entry_points import Limits, SoundInfo
from edgec.errors import InputError
from edgec.runtime_py.audio_language.prompt import prompt_tokens, rows_of_sound, sound_prompt
from edgec.runtime_py.media import sound_file
from tests.audio_language import AUDIO_MARKS, FAMILIES, FRAMES, MARKS, MELS, ROWS, given_by, noise, tokenizer
from tests.speech_bundles import RATE, wav, write_wav

LIMITS = Limits(context=256, prefill_chunk=128, logit_rows=16)
# Whisper's extractor is computed by torch in transformers and by numpy here.
TOLERANCE = 1e-4
# A part of a window, one sample more than a row's last frame, a whole window, and one sample more.
LENGTHS = (0.3, 0.5001, 2.0, 2.0 + 1 / RATE, 3.3, 5.99)


def info(family: str, **changed: Any) -> AudioLanguageInfo:
    sound = SoundInfo(sampling_rate=RATE, mels=MELS, frames=FRAMES, fft=400, hop=160)
    merge = FRAMES // 2 // ROWS[family]
    most = {"voxtral": None, "qwen2_audio": 1}.get(family, 3)
    sizes = {"stride": 2, "merge": merge, "rows": ROWS[family], "audio_token": MARKS.index(AUDIO_MARKS[family])}
    marks = {"before": [5], "after": [6]} if family == "qwen2_audio" else {}
    facts = {"windows": most, "whole": family == "voxtral", **sizes, **marks, **changed}
    return AudioLanguageInfo(limits=LIMITS, sound=sound, **facts)


def code_of(source: Any, family: str = "qwen2_audio", **changed: Any) -> str:
    with pytest.raises(InputError) as error:
        rows_of_sound(source, info(family, **changed))
    return error.value.code


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seconds", LENGTHS)
def test_tokens_and_features_are_those_of_transformers(family: str, seconds: float) -> None:
    if family == "qwen2_audio" and seconds > 2:
        pytest.skip("its processor cuts off what is longer than a window, and edgec refuses it")
    sound, mark = noise(seconds), AUDIO_MARKS[family]
    wanted = given_by(family, f"what is {mark} said", [sound])
    made = sound_prompt(f"what is {mark} said", [sound], info(family), tokenizer(), rendered=False)
    assert made.tokens == wanted["input_ids"][0].tolist()
    assert made.tokens.count(MARKS.index(mark)) == rows_of_sound(sound, info(family))
    assert np.abs(made.features - wanted["input_features"].numpy()).max() <= TOLERANCE
    masks = [value for name, value in wanted.items() if name in ("input_features_mask", "feature_attention_mask")]
    if masks:
        assert list(made.frames) == masks[0].sum(-1).tolist()


def test_two_sounds_have_their_own_rows() -> None:
    sounds, mark = [noise(0.4), noise(1.7, seed=1)], AUDIO_MARKS["qwen2_audio"]
    wanted = given_by("qwen2_audio", f"a {mark} and {mark} here", sounds)
    made = sound_prompt(f"a {mark} and {mark} here", sounds, info("qwen2_audio"), tokenizer(), rendered=False)
    assert made.tokens == wanted["input_ids"][0].tolist() and made.features.shape == (2, MELS, FRAMES)
    assert np.abs(made.features - wanted["input_features"].numpy()).max() <= TOLERANCE


def test_a_sound_without_a_place_comes_first_with_the_words_around_it() -> None:
    words = tokenizer()
    tokens = prompt_tokens("what is said", 2, info("qwen2_audio"), words, rendered=False)
    assert words.convert_ids_to_tokens(tokens) == [
        *["<|audio_bos|>", "<|AUDIO|>", "<|audio_eos|>"] * 2,
        *["what", "is", "said"],
    ]
    assert prompt_tokens("a", 1, info("glmasr"), words, rendered=False)[0] == MARKS.index("<sound>")


def test_places_that_do_not_agree_with_the_sounds_are_refused() -> None:
    for text, rendered in (("<|AUDIO|> and <|AUDIO|>", False), ("what is said", True)):
        with pytest.raises(InputError) as error:
            prompt_tokens(text, 1, info("qwen2_audio"), tokenizer(), rendered=rendered)
        assert error.value.code == "E754"


def test_files_are_sounds_like_arrays(tmp_path: Path) -> None:
    file = write_wav(tmp_path / "a.wav", noise(1.1))
    for source in (file, str(file)):
        assert rows_of_sound(source, info("glmasr")) == rows_of_sound(noise(1.1), info("glmasr"))
    made = [
        sound_prompt("what", [source], info("glmasr"), tokenizer(), rendered=False) for source in (file, noise(1.1))
    ]
    assert made[0].tokens == made[1].tokens and np.array_equal(made[0].features, made[1].features)


def test_sounds_that_cannot_be_heard_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("this is text and not a sound at all, though its name says so")
    (tmp_path / "empty.wav").write_bytes(wav(b""))
    write_wav(tmp_path / "slow.wav", noise(1), rate=8000)
    assert code_of(tmp_path / "absent.wav") == code_of(tmp_path / "text.wav") == code_of(tmp_path) == "E177"
    assert code_of(tmp_path / "empty.wav") == code_of(tmp_path / "slow.wav") == "E178"
    assert code_of(np.zeros(0, np.float32)) == code_of(np.full(9000, np.nan, np.float32)) == "E178"
    for foreign in (5, None, [[0.5]], np.zeros((2, 9000), np.float32), np.zeros(9000, np.int16), object()):
        assert code_of(foreign) == "E152"


def test_a_sound_shorter_than_a_row_or_longer_than_the_windows_is_refused() -> None:
    # Three frames of 10 ms are the fewest of which Qwen2-Audio's encoder makes a row.
    assert code_of(noise(0.02)) == "E754" and rows_of_sound(noise(0.0201), info("qwen2_audio")) == 1
    assert code_of(noise(2.001)) == "E754" and code_of(noise(6.01), "glmasr") == "E754"
    assert rows_of_sound(noise(6), info("glmasr")) == 75
    # Voxtral's processor fills with silence, and takes any length.
    assert rows_of_sound(noise(0.001), info("voxtral")) == 25 and rows_of_sound(noise(20.1), info("voxtral")) == 275


@pytest.mark.parametrize("family", FAMILIES)
def test_ten_hours_are_refused_before_a_sample_is_read(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    length = 10 * 3600 * RATE * 2
    with (tmp_path / "a.wav").open("wb") as file:
        file.write(wav(b"", announced=length))
        file.truncate(44 + length)
    monkeypatch.setattr(sound_file, "_samples", lambda *_: pytest.fail("samples were read"))
    for source in (tmp_path / "a.wav", np.broadcast_to(np.float32(0), length // 2)):
        assert code_of(source, family) == "E178"
    with pytest.raises(InputError) as error:
        sound_prompt("what", [tmp_path / "a.wav"], info(family), tokenizer(), rendered=False)
    assert error.value.code == "E178" and "10.0 hours" in error.value.what


def test_only_the_header_of_a_file_is_read_to_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_wav(tmp_path / "a.wav", noise(1.5))
    monkeypatch.setattr(sound_file, "_samples", lambda *_: pytest.fail("samples were read"))
    assert rows_of_sound(file, info("voxtral")) == 25


def test_numbers_of_rows_that_contradict_the_frames_are_refused() -> None:
    with pytest.raises(ValueError, match="200 frames make 50 rows"):
        info("qwen2_audio", rows=49)
