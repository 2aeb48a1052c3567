"""Windows of a long sound, cut by timestamps: which part of the sound each reads, and what is shown when."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from edgec.bundle.entry_points import EncoderDecoderInfo, Limits, SoundInfo, SoundInput, WaveformInfo
from edgec.bundle.generation_config import GenerationConfig
from edgec.errors import InputError
from edgec.runtime_py.decoding.stepper import Logits
from edgec.runtime_py.encoder_decoder.log_mel import encoder_input
from edgec.runtime_py.encoder_decoder.token_rules import TimestampRules, TokenRules
from edgec.runtime_py.encoder_decoder.transcription import SpeechSegment, TranscriptionRequest, _cut, transcribe
from edgec.runtime_py.generation.generate import GenerationRequest
from edgec.runtime_py.media.sound_file import Samples
from tests.runtime_py.fake_stepper import FakeStepper

EOS, START, EN, DE, TRANSLATE, TRANSCRIBE, PLAIN, ZERO = 30, 31, 32, 33, 34, 35, 40, 41
RATE, STEP = 16_000, 320
SOUND = SoundInfo(sampling_rate=RATE, mels=16, frames=100, fft=400, hop=160)
CONFIG = GenerationConfig(
    decoder_start_token_id=START,
    eos_token_id=EOS,
    no_timestamps_token_id=PLAIN,
    lang_to_id={"<|en|>": EN, "<|de|>": DE},
    task_to_id={"translate": TRANSLATE, "transcribe": TRANSCRIBE},
)
TIMED = GenerationRequest(None, eos=frozenset([EOS]))
NOISE: Samples = np.random.default_rng(0).normal(0, 0.1, 40_000).astype(np.float32)


class ScriptedSession(FakeStepper):
    """Says one script after each source that it reads, and the first language after a bare start token."""

    def __init__(self, scripts: Sequence[Sequence[int]], sound: SoundInput = SOUND) -> None:
        super().__init__(self._next, vocab_size=96)
        limits = Limits(context=64, prefill_chunk=8, logit_rows=8)
        kind = "sound" if isinstance(sound, SoundInfo) else "waveform"
        self.info = EncoderDecoderInfo.model_validate({"limits": limits, kind: sound})
        self.scripts, self.rules, self.prompts = scripts, TokenRules(), 0
        self.heard: list[Any] = []

    def _next(self, tokens: Sequence[int]) -> int:
        if len(tokens) < self.prompts:
            return DE
        script = [*self.scripts[len(self.heard) - 1], EOS]
        return script[len(tokens) - self.prompts] if len(tokens) - self.prompts < len(script) else EOS

    def read(self, source: Any) -> None:
        self.heard.append(source)
        self.cache.write(0, ())

    def prefill(self, tokens: Sequence[int], start: int) -> Logits:
        return self.rules.applied(super().prefill(tokens, start), self.cache.tokens)


def words(tokens: Sequence[int]) -> str:
    return "".join(f" {token}" for token in tokens)


def written(
    session: ScriptedSession, samples: Samples, shown: list[SpeechSegment] | None = None, **asked: Any
) -> list[tuple[float, float, str]]:
    timed = asked.get("timestamps") is not False
    session.prompts = 3 if timed else 4
    request = TranscriptionRequest(TIMED, **{"language": "en", **asked})
    made = transcribe(session, samples, request, CONFIG, words, None if shown is None else shown.append)  # type: ignore[arg-type]
    return [(segment.start_s, segment.end_s, segment.text) for segment in made.segments]


def test_the_next_window_begins_where_the_last_finished_sentence_ends() -> None:
    scripts = [
        [ZERO, 4, 5, ZERO + 20, ZERO + 20, 6, 7],  # 0.40 s, and a sentence that the window cuts off
        [ZERO, 6, 7, ZERO + 10, ZERO + 15, 8, ZERO + 45],  # two sentences, the last of which ends in the window
        [ZERO, 9],  # never closed: it lasts to the window's end
        [ZERO, 3],
    ]
    session = ScriptedSession(scripts)
    pieces = written(session, NOISE)
    assert pieces == [(0, 0.4, " 4 5"), (0.4, 0.6, " 6 7"), (0.7, 1.3, " 8"), (1.4, 2.4, " 9"), (2.4, 2.5, " 3")]
    second = 20 * STEP
    for heard, start in zip(session.heard, (0, second, second + RATE, second + 2 * RATE), strict=True):
        np.testing.assert_array_equal(heard, encoder_input(NOISE[start : start + RATE], SOUND))


def test_without_timestamps_windows_follow_each_other() -> None:
    session = ScriptedSession([[4], [5, 6], [7]])
    assert written(session, NOISE, timestamps=False) == [(0.0, 1.0, " 4"), (1.0, 2.0, " 5 6"), (2.0, 2.5, " 7")]


def test_a_waveform_is_read_in_windows_of_its_own_with_silence_up_to_the_fewest() -> None:
    sound = WaveformInfo(sampling_rate=RATE, fewest_samples=1000, window_samples=8000)
    session = ScriptedSession([[4], [5], [6]], sound)
    samples = NOISE[:16_200]
    assert [piece[:2] for piece in written(session, samples, timestamps=False)] == [(0, 0.5), (0.5, 1), (1, 1.0125)]
    assert [heard.shape for heard in session.heard] == [(1, 8000), (1, 8000), (1, 1000)]
    np.testing.assert_array_equal(session.heard[2][0, 200:], 0)


def test_each_segment_is_shown_before_the_next_window_is_read() -> None:
    read: list[int] = []
    session = ScriptedSession([[ZERO, 4, ZERO + 9, ZERO + 12, 5, ZERO + 30], [ZERO, 6, ZERO + 30], [ZERO, 7, ZERO + 9]])

    class Shown(list[SpeechSegment]):
        def append(self, segment: SpeechSegment) -> None:
            read.append(len(session.heard))
            super().append(segment)

    shown = Shown()
    assert len(written(session, NOISE, shown)) == len(shown) == 4
    assert read == [1, 1, 2, 3]


def test_the_language_is_detected_in_the_first_window_or_given() -> None:
    session = ScriptedSession([[4]] * 4)
    session.prompts = 3
    request = TranscriptionRequest(TIMED)
    assert transcribe(session, NOISE[:8000], request, CONFIG, words).language == "<|de|>"  # type: ignore[arg-type]
    assert session.cache.tokens[:3] == [START, DE, TRANSCRIBE] and len(session.heard) == 2
    written(session, NOISE[:8000], language="EN", task="translate")
    assert session.cache.tokens[:3] == [START, EN, TRANSLATE] and len(session.heard) == 3


@pytest.mark.parametrize(
    ("asked", "code"), [({"language": "xx"}, "E156"), ({"task": "sing"}, "E156"), ({"language": ""}, "E156")]
)
def test_what_the_model_does_not_know_is_refused_before_anything_is_read(asked: dict[str, Any], code: str) -> None:
    session = ScriptedSession([[4]])
    with pytest.raises(InputError) as refused:
        written(session, NOISE, **asked)
    assert refused.value.code == code and session.heard == []


def test_timestamps_are_refused_where_the_model_has_none() -> None:
    session = ScriptedSession([[4]])
    request, config = TranscriptionRequest(TIMED, timestamps=True), GenerationConfig(decoder_start_token_id=START)
    with pytest.raises(InputError) as refused:
        transcribe(session, NOISE, request, config, words)  # type: ignore[arg-type]
    assert refused.value.code == "E156" and session.heard == []


def said_by_a_model(chance: random.Random) -> list[int]:
    """Text between timestamps that never go back, which end in any way."""
    said, stamp = [], ZERO
    for _ in range(chance.randrange(1, 12)):
        stamp += chance.randrange(0, 5)
        said += chance.choice([[stamp], [stamp, stamp], [chance.randrange(29)], [stamp, stamp + 1]])
        stamp = max([stamp, *said])
    return said


def test_a_window_is_cut_as_transformers_cuts_it() -> None:
    import torch
    from transformers.models.whisper.generation_whisper import WhisperGenerationMixin

    chance, frames = random.Random(1), 100
    for _ in range(300):
        said = said_by_a_model(chance)
        time = (torch.tensor([0.0], dtype=torch.float64), ZERO, torch.tensor([frames]), 0.02, 0.01, 2)
        segments, offset = WhisperGenerationMixin._retrieve_segment(
            torch.tensor(said),
            [None],
            *time,
            prev_idx=0,
            idx=0,
            return_token_timestamps=False,
            decoder_input_ids=torch.zeros(1, 0),
        )
        cut = _cut(said, TimestampRules(ZERO, PLAIN, EOS), frames * SOUND.hop, STEP)
        assert [piece[2] for piece in cut.pieces] == _own_tokens(segments, said)
        wanted = [(float(each["start"]), float(each["end"])) for each in segments]
        np.testing.assert_allclose([(a * 0.02, b * 0.02) for a, b, _ in cut.pieces], wanted, atol=1e-9)
        # A window that ends at 0.00 s is left behind here, where transformers would read it again.
        assert cut.samples == (int(offset) or frames) * SOUND.hop


def _own_tokens(segments: Sequence[Any], said: Sequence[int]) -> list[list[int]]:
    """The tokens of transformers' segments; the last one of an open window has the next one's first timestamp too."""
    tokens: list[list[int]] = [each["tokens"].tolist() for each in segments]
    pairs = any(min(pair) >= ZERO for pair in pairwise(said))
    closed = len(said) > 1 and said[-2] < ZERO <= said[-1]
    return [*tokens[:-1], tokens[-1][:-1]] if pairs and not closed else tokens


@pytest.mark.parametrize(
    ("named", "language"),
    [
        ({"no_timestamps_token_id": 95}, "en"),  # 0.00 s would be the token after the last one
        ({"lang_to_id": {"<|en|>": 1 << 20}}, None),
        ({"forced_eos_token_id": 96}, "en"),
    ],
)
def test_a_config_that_names_tokens_beyond_the_vocabulary(named: dict[str, Any], language: str | None) -> None:
    """As of a bundle that somebody altered: an error with a code, whatever the ids are."""
    session = ScriptedSession([[ZERO, 4, ZERO + 9]])
    request = TranscriptionRequest(TIMED, language)
    with pytest.raises(InputError, match="and the model has 96") as caught:
        transcribe(session, NOISE, request, CONFIG.model_copy(update=named), words)  # type: ignore[arg-type]
    assert caught.value.code == "E141"
