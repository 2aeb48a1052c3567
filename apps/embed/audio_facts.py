"""What an app must know of a bundle that transcribes speech: its sound, and whether the engine writes its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from edgec.apps.embed.encoder_facts import text_files
from edgec.bundle.folder import Bundle
from edgec.bundle.generation_config import GenerationConfig, read_generation_config
from edgec.bundle.golden import GOLDEN_SOURCE_TOKENS
from edgec.errors import InputError

LONGEST_S = 4 * 3600
"""The longest sound in seconds, as in ``engine/audio/sound_file.h``."""
_NO_PENALTY = 1.0


@dataclass(frozen=True)
class AudioFacts:
    """How a sound is given to a model that transcribes it.

    Attributes:
        sampling_rate: Hz.
        window_samples: that the encoder reads at a time.
        languages: their names, such as ``en``; empty where the model knows one.
        timestamps: the model cuts its text by timestamps.
        golden_values: numbers in the source of the bundle's golden vector.
    """

    sampling_rate: int
    window_samples: int
    languages: tuple[str, ...]
    timestamps: bool
    golden_values: int


def audio_facts(bundle: Bundle) -> AudioFacts | None:
    """Read the facts from a bundle; None where it does not transcribe.

    Raises:
        InputError: E462 it has no tokenizer, E141 an unreadable generation config, E755 the engine does not write its
            text as its generation config says.
    """
    info = bundle.manifest.encoder_decoder
    if info is None or info.sound_input is None:
        return None
    text_files(bundle, "tokens into text")
    config = read_generation_config(bundle.generation_config_path)
    _check_rules(config, bundle)
    sound = info.sound_input
    return AudioFacts(
        sampling_rate=sound.sampling_rate,
        window_samples=sound.window_samples,
        languages=tuple(name.strip("<|>") for name in config.lang_to_id or {}),
        timestamps=config.no_timestamps_token_id is not None,
        golden_values=prod(info.source_shape(GOLDEN_SOURCE_TOKENS)),
    )


def _check_rules(config: GenerationConfig, bundle: Bundle) -> None:
    """Refuse what the engine would refuse in the app: see ``engine/audio/speech_facts.cpp``."""
    asked: Mapping[str, bool] = {
        "bad_words_ids": bool(config.bad_words_ids),
        "forced_bos_token_id": config.forced_bos_token_id is not None,
        "forced_eos_token_id": config.forced_eos_token_id is not None,
        "min_length": bool(config.min_length),
        "no_repeat_ngram_size": bool(config.no_repeat_ngram_size),
        "repetition_penalty": config.repetition_penalty not in (None, _NO_PENALTY),
    }
    unknown = [name for name, given in asked.items() if given]
    if unknown:
        raise InputError(
            "an app cannot write this model's text",
            where=str(bundle.generation_config_path),
            why=f"the app's engine does not apply {', '.join(unknown)} of the generation config",
            fix="use the model on this machine (edgec run --audio), or export it without that setting",
            code="E755",
        )
