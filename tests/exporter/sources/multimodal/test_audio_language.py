"""Which models have audio that edgec knows, and files that do not say what they read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgec.errors import InputError
from edgec.exporter.sources.resolve import resolve
from tests.audio_language import AUDIO_MARKS, FAMILIES, FRAMES, MARKS, MELS

# The most windows, whether silence counts as sound, and the words around a sound.
CUTS: dict[str, tuple[int | None, bool, tuple[str, str]]] = {
    "voxtral": (None, True, ("[BEGIN_AUDIO]", "")),
    "qwen2_audio": (1, False, ("<|audio_bos|>", "<|audio_eos|>")),
    # 600 and 655 s in windows of 2 s.
    "audioflamingo3": (300, False, ("", "")),
    "glmasr": (327, False, ("", "")),
}


def saved(family: str, folder: Path, extractor: dict[str, Any] | None = None, **audio: Any) -> Path:
    """A config with other values for the audio encoder, and the description of a feature extractor."""
    model = FAMILIES[family]()
    config = json.loads(model.config.to_json_string(use_diff=False))
    config["audio_config"].update(audio)
    (folder / "config.json").write_text(json.dumps({**config, "architectures": [type(model).__name__]}))
    described = {"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": MELS, "chunk_length": 2}
    (folder / "preprocessor_config.json").write_text(json.dumps({**described, **(extractor or {})}))
    return folder


def code_of(folder: Path, **options: Any) -> tuple[str, str]:
    with pytest.raises(InputError) as error:
        resolve(str(folder), random_weights=True, **options)
    return error.value.code, error.value.why or ""


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_is_known_with_its_windows_and_its_token(family: str, tmp_path: Path) -> None:
    source = resolve(str(saved(family, tmp_path)), random_weights=True)
    assert source.kind == "audio-language" and source.task == "audio-text-to-text" and source.audio is not None
    audio = source.audio
    assert (audio.sound.mels, audio.sound.frames, audio.stride) == (MELS, FRAMES, 2)
    assert audio.audio_token == MARKS.index(AUDIO_MARKS[family]) and audio.family == family
    assert (audio.windows, audio.whole, audio.marks) == CUTS[family]
    assert bool(audio.template) == (family == "qwen2_audio") and source.config["num_hidden_layers"] == 2


@pytest.mark.long
def test_the_description_of_a_processor_is_believed(tmp_path: Path) -> None:
    folder = saved("audioflamingo3", tmp_path)
    extractor = json.loads((folder / "preprocessor_config.json").read_text())
    (folder / "preprocessor_config.json").unlink()
    described = {"feature_extractor": extractor, "max_audio_len": 10}
    (folder / "processor_config.json").write_text(json.dumps(described))
    source = resolve(str(folder), random_weights=True)
    assert source.audio is not None and source.audio.windows == 5 and source.audio.sound.frames == FRAMES


@pytest.mark.long
def test_the_text_part_can_be_asked_for(tmp_path: Path) -> None:
    source = resolve(str(saved("qwen2_audio", tmp_path)), random_weights=True, task="text-generation")
    assert source.kind == "decoder" and source.audio is None


@pytest.mark.long
@pytest.mark.parametrize(
    "extractor, audio",
    [
        ({"chunk_length": 3}, {}),
        ({"chunk_length": 0}, {}),
        ({"chunk_length": "2"}, {}),
        ({"do_normalize": True}, {}),
        ({"dither": 0.1}, {}),
        ({"feature_extractor_type": "ParakeetFeatureExtractor"}, {}),
        ({}, {"max_source_positions": 99}),
    ],
)
def test_sounds_that_the_encoder_does_not_read_are_refused(
    extractor: dict[str, Any], audio: dict[str, Any], tmp_path: Path
) -> None:
    assert code_of(saved("qwen2_audio", tmp_path, extractor, **audio))[0] == "E750"


@pytest.mark.long
def test_a_token_outside_the_vocabulary_is_refused(tmp_path: Path) -> None:
    folder = saved("voxtral", tmp_path)
    config = json.loads((folder / "config.json").read_text())
    for token in (None, -1, config["text_config"]["vocab_size"]):
        (folder / "config.json").write_text(json.dumps({**config, "audio_token_id": token}))
        assert code_of(folder)[0] == "E750"


@pytest.mark.long
@pytest.mark.parametrize(
    "config, why",
    [
        ({"model_type": "llama"}, "has no class for it that answers about sound"),
        ({"model_type": "granite_speech"}, "prepared by GraniteSpeechFeatureExtractor"),
        ({"model_type": "qwen3_asr"}, "prepared by Qwen3ASRFeatureExtractor"),
        ({"model_type": "musicflamingo"}, "a class that transformers does not name"),
    ],
)
def test_ears_that_edgec_cannot_export_are_refused_with_the_reason(
    config: dict[str, Any], why: str, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    code, reason = code_of(tmp_path, task="audio-text-to-text")
    assert code == "E751" and why in reason


@pytest.mark.long
def test_rows_that_depend_on_the_text_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.models.auto.feature_extraction_auto import FEATURE_EXTRACTOR_MAPPING_NAMES

    monkeypatch.setitem(FEATURE_EXTRACTOR_MAPPING_NAMES, "musicflamingo", "WhisperFeatureExtractor")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "musicflamingo"}))
    code, reason = code_of(tmp_path, task="audio-text-to-text")
    assert code == "E751" and "depend on input_ids" in reason
