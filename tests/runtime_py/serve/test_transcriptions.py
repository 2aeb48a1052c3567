"""Sounds over HTTP: OpenAI's own client, every format, streams, sounds that lie, clients that go."""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import openai
import pytest

import edgec
from edgec.runtime_py.encoder_decoder.transcription import SpeechSegment, Transcript
from edgec.runtime_py.model import Model
from edgec.runtime_py.serve.audio_body import SoundFormat, transcript_response
from edgec.runtime_py.serve.limits import DEFAULT_LIMITS
from tests.runtime_py.serve.running import Running, running
from tests.speech_bundles import RATE, SWEEP, timed_bundle, wav

UPLOAD = 1 << 20
MADE = Transcript(
    "Hello you.",
    (SpeechSegment(0.0, 1.5, " Hello", (1, 2)), SpeechSegment(1.5, 3661.25, " you.", (3,))),
    "<|en|>",
    3661.25,
    0.1,
)


def sound_of(samples: np.ndarray, announced: int | None = None) -> bytes:
    return wav(samples.astype("<f4").tobytes(), kind=3, bits=32, rate=RATE, announced=announced)


SOUND = sound_of(SWEEP)


@pytest.fixture(scope="module")
def listener() -> Model:
    return edgec.load(timed_bundle())


@pytest.fixture(scope="module")
def ears(listener: Model) -> Iterator[Running]:
    with running(listener, limits=replace(DEFAULT_LIMITS, body_bytes=1000, upload_bytes=UPLOAD, uploads=1)) as made:
        yield made


def test_the_formats_of_a_transcript() -> None:
    def text(form: SoundFormat) -> str:
        return bytes(transcript_response(MADE, form, "transcribe", 0.0).body).decode()

    assert text("text") == "Hello you.\n"
    assert text("srt").splitlines() == [
        *("1", "00:00:00,000 --> 00:00:01,500", "Hello", ""),
        *("2", "00:00:01,500 --> 01:01:01,250", "you."),
    ]
    assert text("vtt").splitlines()[:4] == ["WEBVTT", "", "00:00:00.000 --> 00:00:01.500", "Hello"]
    assert '"duration":3661.25' in text("verbose_json") and '"language":"en"' in text("verbose_json")


@pytest.mark.long
def test_a_transcript_is_that_of_the_python_api(ears: Running, listener: Model) -> None:
    own, client = listener.transcribe(SWEEP, language="en"), ears.client().audio
    asked: Any = {"model": ears.name, "file": ("a.wav", SOUND), "language": "en"}
    made = client.transcriptions.create(**asked)
    assert made.text == own.text and own.text
    told = client.transcriptions.create(**asked, response_format="verbose_json", timestamp_granularities=["segment"])
    assert [(one.start, one.end, one.text) for one in told.segments] == [
        (one.start_s, one.end_s, one.text) for one in own.segments
    ]
    assert (told.language, told.duration) == ("en", own.sound_s)
    assert client.transcriptions.create(**asked, response_format="text") == f"{own.text}\n"
    translated = client.translations.create(model=ears.name, file=("a.wav", SOUND))
    assert translated.text == listener.transcribe(SWEEP, task="translate").text
    ears.settle()


@pytest.mark.long
def test_events_add_up_to_the_transcript(ears: Running, listener: Model) -> None:
    stream = ears.client().audio.transcriptions.create(
        model=ears.name, file=("a.wav", SOUND), language="de", stream=True
    )
    *deltas, last = stream
    own = listener.transcribe(SWEEP, language="de")
    assert len(deltas) == len(own.segments) > 1 and last.type == "transcript.text.done" and last.text == own.text
    assert "".join(one.delta for one in deltas if one.type == "transcript.text.delta").strip() == own.text
    ears.settle()


@pytest.mark.long
def test_sounds_that_cannot_be_read_are_refused(ears: Running) -> None:
    client = ears.client()

    def refused(raw: bytes, **more: Any) -> tuple[int, str | None]:
        with pytest.raises(openai.APIStatusError) as caught:
            client.audio.transcriptions.create(**{"model": ears.name, "file": ("a.wav", raw), **more})
        return caught.value.status_code, getattr(caught.value, "code", None)

    assert refused(b"ID3 not a WAV file") == (400, "E177")
    assert refused(sound_of(SWEEP, announced=1 << 31)) == (400, "E177")
    assert refused(sound_of(SWEEP[:0])) == (400, "E178")
    assert refused(wav(bytes(4000), rate=44_100)) == (400, "E178")
    assert refused(SOUND, language="klingon") == (400, "E156")
    assert refused(SOUND, stream=True, response_format="srt") == (400, "E633")
    # The first error of a stream has a status, too.
    assert refused(b"RIFF", stream=True) == (400, "E177")
    assert refused(bytes(UPLOAD + 1)) == (413, "E635")
    with pytest.raises(openai.BadRequestError) as wrong:
        client.chat.completions.create(model=ears.name, messages=[{"role": "user", "content": "Hi"}])
    assert wrong.value.code == "E644" and "/v1/audio/transcriptions" in str(wrong.value)
    ears.settle()


@pytest.mark.long
def test_a_client_that_goes_stops_the_transcript(ears: Running, listener: Model) -> None:
    begun = time.monotonic()
    listener.transcribe(SWEEP, language="en")
    alone = time.monotonic() - begun
    sound = sound_of(np.tile(SWEEP, 4))
    body = b"".join(
        b'--XX\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n' % (name, file, data)
        for name, file, data in ((b"file", b'; filename="a.wav"', sound), (b"model", b"", ears.name.encode()))
    )
    body += b"--XX--\r\n"
    head = (
        "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: multipart/form-data; boundary=XX\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    client = socket.create_connection(ears.place, 30)
    client.sendall(head.encode() + body)
    while not ears.hosted[0].waiting:
        time.sleep(0.002)
    client.close()
    gone = time.monotonic()
    ears.settle()
    assert time.monotonic() - gone < 3 * alone


@pytest.mark.long
def test_one_large_body_at_a_time(ears: Running) -> None:
    """The place of a large body is given back once its request is answered, whatever becomes of it."""
    small = replace(DEFAULT_LIMITS, body_bytes=1000, upload_bytes=UPLOAD, uploads=1)
    with running(ears.hosted[0].model, limits=small) as tight:
        for _ in range(3):
            made = tight.client().audio.transcriptions.create(model=tight.name, file=io.BytesIO(sound_of(SWEEP[:9000])))
            assert isinstance(made.text, str)
        slow = socket.create_connection(tight.place, 30)
        slow.sendall(
            b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: multipart/form-data; boundary=XX\r\nContent-Length: 5000\r\n\r\n" + bytes(3000)
        )
        deadline, status = time.monotonic() + 20, 200
        while status == 200 and time.monotonic() < deadline:
            try:
                tight.client().audio.transcriptions.create(model=tight.name, file=io.BytesIO(sound_of(SWEEP[:9000])))
            except openai.RateLimitError as error:
                status = error.status_code
        assert status == 429
        slow.close()
