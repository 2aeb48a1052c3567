"""Images and sounds in conversations over HTTP: three protocols, places among messages, bombs and addresses."""

from __future__ import annotations

import io
import struct
import zlib
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import numpy as np
import openai
import pytest

import edgec
from edgec.errors import InputError
from edgec.runtime_py.media import image_file
from edgec.runtime_py.model import Model
from tests.audio_language import noise, save_audio_language
from tests.runtime_py.serve.running import NAME, Running, running
from tests.speech_bundles import write_wav
from tests.vision_bundles import vision_bundle

GREEDY: dict[str, Any] = {"temperature": 0, "max_tokens": 8}


def png(width: int = 30, height: int = 20, seed: int = 0) -> bytes:
    from PIL import Image

    held = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    Image.fromarray(pixels).save(held, "PNG")
    return held.getvalue()


def bomb() -> bytes:
    """A PNG of some hundred bytes that says it has 2.5 billion pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", 50_000, 50_000, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(9000))) + chunk(b"IEND", b"")
    )


def url(raw: bytes) -> str:
    return f"data:image/png;base64,{b64encode(raw).decode()}"


def asked(*parts: Any) -> list[Any]:
    return [{"role": "user", "content": [*parts]}]


def image(raw: bytes) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url(raw)}}


TEXT = {"type": "text", "text": "what is here"}


@pytest.fixture(scope="module")
def viewer() -> Model:
    return edgec.load(vision_bundle("llava"))


@pytest.fixture(scope="module")
def eyes(viewer: Model, model: Model) -> Iterator[Running]:
    with running(viewer, model) as made:
        yield made


@pytest.mark.long
def test_an_image_in_a_chat_is_that_of_the_python_api(eyes: Running, viewer: Model) -> None:
    own = viewer.generate("what is here", images=[png()], template=True, max_new_tokens=8).text
    other = viewer.generate("what is here", images=[png(seed=1)], template=True, max_new_tokens=8).text
    client = eyes.client()
    made = client.chat.completions.create(model=eyes.name, messages=asked(image(png()), TEXT), **GREEDY)
    assert made.choices[0].message.content == own != other
    streamed = client.chat.completions.create(
        model=eyes.name, messages=asked(image(png(seed=1)), TEXT), stream=True, **GREEDY
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in streamed) == other
    # What the cache holds of another image is not taken for this one.
    again = client.chat.completions.create(model=eyes.name, messages=asked(image(png()), TEXT), **GREEDY)
    assert again.choices[0].message.content == own
    eyes.settle()


@pytest.mark.long
def test_the_other_protocols_bring_images_too(eyes: Running, viewer: Model) -> None:
    own = viewer.generate("what is here", images=[png()], template=True, max_new_tokens=8).text
    items: Any = [
        {
            "role": "user",
            "content": [{"type": "input_image", "image_url": url(png())}, {"type": "input_text", "text": TEXT["text"]}],
        }
    ]
    response = eyes.client().responses.create(
        model=eyes.name, input=items, temperature=0, max_output_tokens=8, store=False
    )
    assert response.output_text == own
    client = anthropic.Anthropic(base_url=eyes.url.removesuffix("/v1"), api_key="none", max_retries=0)
    source: Any = {"type": "base64", "media_type": "image/png", "data": b64encode(png()).decode()}
    blocks: Any = asked({"type": "image", "source": source}, TEXT)
    said = client.messages.create(model=eyes.name, max_tokens=8, messages=blocks, extra_body={"temperature": 0})
    assert said.content[0].type == "text" and said.content[0].text == own
    eyes.settle()


@pytest.mark.long
def test_images_have_their_places_among_messages(eyes: Running, viewer: Model) -> None:
    talk = [
        *asked(image(png()), TEXT),
        {"role": "assistant", "content": "a dog"},
        *asked(TEXT, image(png(seed=1))),
    ]
    made = eyes.client().chat.completions.create(model=eyes.name, messages=talk, **GREEDY)
    assert made.usage is not None and made.usage.prompt_tokens > 2 * viewer.bundle.manifest.vision_language.rows  # type: ignore[union-attr]
    eyes.settle()


@pytest.mark.long
def test_images_that_cannot_be_used(eyes: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    client = eyes.client()

    def refused(*parts: Any, model: str = eyes.name) -> str | None:
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(model=model, messages=asked(*parts, TEXT), **GREEDY)
        return caught.value.code

    assert refused({"type": "image_url", "image_url": {"url": "http://127.0.0.1/a.png"}}) == "E895"
    assert refused({"type": "image_url", "image_url": {"url": "data:image/png;base64,%%%"}}) == "E895"
    assert refused({"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}) == "E895"
    assert refused(image(b"GIF89a")) == "E653"
    assert refused(image(bomb())) == "E654"
    assert refused(*[image(png())] * 60) == "E150"
    assert refused(image(png()), model=NAME) == "E658"
    monkeypatch.setattr(image_file, "MAX_PIXELS", 1000)
    assert refused(image(png()), image(png())) == "E654"
    eyes.settle()


def test_images_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_file, "MAX_PIXELS", 1000)
    assert len(image_file.read_images([png()])) == 1
    with pytest.raises(InputError, match="E654"):
        image_file.read_images([png(), png()])


@pytest.mark.slow
def test_a_sound_in_a_chat(tmp_path: Path, model: Model) -> None:
    folder = save_audio_language("qwen2_audio", tmp_path / "sounds")
    hears = edgec.load(edgec.export(folder, recipe="float", out=tmp_path / "hears.edgec"))
    raw = write_wav(tmp_path / "a.wav", noise(0.5)).read_bytes()
    part = {"type": "input_audio", "input_audio": {"data": b64encode(raw).decode(), "format": "wav"}}
    with running(hears) as ears:
        client = ears.client()
        made = client.chat.completions.create(model=ears.name, messages=asked(part, TEXT), **GREEDY)
        own = hears.generate("what is here", audio=[raw], template=True, max_new_tokens=8)
        assert made.choices[0].message.content == own.text
        lying = raw[:40] + struct.pack("<I", 1 << 30) + raw[44:]
        for data in (lying, raw[:60], b"nothing"):
            bad = {"type": "input_audio", "input_audio": {"data": b64encode(data).decode(), "format": "wav"}}
            with pytest.raises(openai.BadRequestError) as refused:
                client.chat.completions.create(model=ears.name, messages=asked(bad, TEXT), **GREEDY)
            assert refused.value.code == "E177"
        ears.settle()
