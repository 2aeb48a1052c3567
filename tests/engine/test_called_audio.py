"""The C++ of speech over an artifact that the caller executes: Python's text of a sound, and failures of the caller."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgec
from edgec.bundle.folder import open_bundle
from edgec.bundle.golden import GOLDEN_SOURCE_TOKENS, probe_values, read_golden
from tests.engine.audio_library import CalledAudio, Values
from tests.engine.vision_library import Refused
from tests.speech_bundles import RATE, SWEEP, timed_bundle

# EDGEC_FAILED, and the statuses of a sound without samples and of another rate.
FAILED, EMPTY, OTHER_RATE = 2, 17, 19


@pytest.fixture(scope="module")
def bundle() -> Path:
    return timed_bundle()


@pytest.fixture
def called(bundle: Path) -> Iterator[CalledAudio]:
    """The C++ over Python's own session."""
    session = edgec.load(bundle).encoder_decoder
    shape = session.info.source_shape(GOLDEN_SOURCE_TOKENS)
    speech = CalledAudio(bundle, lambda source: session.read(source.reshape(shape)), session.prefill)
    yield speech
    speech.close()


@pytest.mark.long
@pytest.mark.parametrize(
    ("own", "options"),
    [
        ({}, {}),
        ({"most_tokens": 20}, {"max_new_tokens": 20}),
        (
            {"language": "de", "task": "translate", "timestamps": 1, "most_tokens": 12},
            {"language": "de", "task": "translate", "timestamps": False, "max_new_tokens": 12},
        ),
    ],
)
def test_a_sound_is_written_as_python_writes_it(
    called: CalledAudio, bundle: Path, own: dict[str, Any], options: dict[str, Any]
) -> None:
    wanted = edgec.load(bundle).transcribe(SWEEP, **options).segments
    said = called.transcribe(SWEEP, RATE, **own)
    assert [(each.start_s, each.end_s, each.tokens) for each in said] == [
        (each.start_s, each.end_s, list(each.tokens)) for each in wanted
    ]
    assert len(said) > 3


@pytest.mark.long
def test_golden_vectors_are_replayed_a_source_and_tokens_apart(called: CalledAudio, bundle: Path) -> None:
    opened = open_bundle(bundle)
    assert opened.golden_path is not None and opened.manifest.encoder_decoder is not None
    (vector,) = read_golden(opened.golden_path).outputs
    called.read(probe_values(opened.manifest.encoder_decoder.source_shape(GOLDEN_SOURCE_TOKENS), "float32"))
    said, start = [int(called.feed(vector.prompt_ids, 0).argmax())], len(vector.prompt_ids)
    for position, token in enumerate(vector.continuation_ids[:-1], start):
        said.append(int(called.feed([token], position).argmax()))
    assert said == vector.continuation_ids


@pytest.mark.long
def test_a_failure_of_the_caller_ends_the_sound_and_leaves_the_model(bundle: Path) -> None:
    session = edgec.load(bundle).encoder_decoder
    shape = session.info.source_shape(GOLDEN_SOURCE_TOKENS)
    broken = {"read": False, "feed": False}

    def read(source: Values) -> None:
        if broken["read"]:
            raise ValueError("no encoder")
        session.read(source.reshape(shape))

    def feed(tokens: list[int], start: int) -> Values:
        if broken["feed"] and start > 4:
            raise ValueError("no decoder")
        return session.prefill(tokens, start)

    speech = CalledAudio(bundle, read, feed)
    whole = speech.transcribe(SWEEP, RATE)
    for name, why in (("read", "the encoder failed"), ("feed", "the decoder failed")):
        broken[name] = True
        with pytest.raises(Refused) as refused:
            speech.transcribe(SWEEP, RATE)
        assert refused.value.status == FAILED and why in str(refused.value)
        assert str(speech.failure) == why.replace("the", "no").removesuffix(" failed")
        broken[name] = False
        assert speech.transcribe(SWEEP, RATE) == whole
    speech.close()


@pytest.mark.long
def test_a_caller_that_gives_no_logits_fails(bundle: Path) -> None:
    speech = CalledAudio(bundle, lambda source: None, lambda tokens, start: np.zeros(0, np.float32))
    with pytest.raises(Refused, match="the decoder gave no logits"):
        speech.transcribe(SWEEP, RATE)
    speech.close()


@pytest.mark.long
def test_what_is_no_sound_is_refused_before_any_call(bundle: Path) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError

    speech = CalledAudio(bundle, never, never)
    for samples, rate, status in ((SWEEP[:0], RATE, EMPTY), (SWEEP, 8_000, OTHER_RATE)):
        with pytest.raises(Refused) as refused:
            speech.transcribe(samples, rate)
        assert refused.value.status == status and speech.failure is None
    speech.close()


@pytest.mark.long
def test_a_folder_without_a_bundle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"manifest\.json"):
        CalledAudio(tmp_path, lambda source: None, lambda tokens, start: np.zeros(1, np.float32))
