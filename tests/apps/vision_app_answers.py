"""Python's prompts and answers about images for the generated packages of models that see, and files to be read."""

from __future__ import annotations

import json
import struct
import zlib
from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np

from edgec.bundle.folder import open_bundle
from edgec.bundle.golden import read_golden
from edgec.bundle.image_preparation import read_preparation
from edgec.bundle.tokenizer_folder import open_tokenizer
from edgec.runtime_py.vision_language.processor import Prompt
from edgec.runtime_py.vision_language.session import VisionLanguageSession
from tests.vision_language import picture

FAMILIES = ("idefics3", "qwen3_vl", "gemma3", "paligemma")
"""Text around several tiles, positions of three parts, rows that see each other, a prompt that sees all of itself."""
QUESTION, MOST = "what is this", 12
# Float32 sums in another order; the tokens of random weights may lie as near to each other.
TOLERANCE = 1e-4
READ = [*(f"turned{each}.png" for each in range(1, 9)), "clear.png", "palette.png", "still.gif", "bitmap.bmp"]
"""Those of ``written_files`` that a system reads as Python does."""


def written_files(folder: Path) -> Path:
    """Image files of many kinds: turned by EXIF, with transparency, grey, palettes, animated, damaged, too large."""
    from PIL import Image

    folder.mkdir()
    noise = picture(7, 5)
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        noise.save(folder / f"turned{orientation}.png", exif=exif)
    noise.convert("L").save(folder / "grey.png")
    noise.convert("RGBA").putalpha(Image.new("L", noise.size, 40))
    clear = noise.convert("RGBA")
    clear.putalpha(Image.effect_noise(noise.size, 90))
    clear.save(folder / "clear.png")
    noise.convert("P", palette=Image.Palette.ADAPTIVE).save(folder / "palette.png")
    noise.convert("P", palette=Image.Palette.ADAPTIVE).save(folder / "still.gif")
    noise.save(folder / "bitmap.bmp")
    noise.save(folder / "still.webp")
    frames: dict[str, Any] = {"save_all": True, "append_images": [picture(7, 5, seed=1)]}
    noise.save(folder / "moving.gif", **frames)
    noise.save(folder / "moving.png", **frames)
    noise.save(folder / "moving.webp", **frames)
    Image.new("I;16", (7, 5), 300).save(folder / "deep.png")
    (folder / "broken.png").write_bytes((folder / "grey.png").read_bytes()[:40])
    (folder / "words.txt").write_text("these are words")
    (folder / "huge.png").write_bytes(_header(20_000, 20_000))
    (folder / "line.png").write_bytes(_header(5, 501))
    return folder


def _header(width: int, height: int) -> bytes:
    """A PNG file of such a size without its pixels."""
    fields = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + fields + struct.pack(">I", zlib.crc32(fields))


def numbers(printed: str) -> list[int]:
    """A list of numbers that the program printed."""
    return [int(number) for number in printed.strip("[]").split(",")]


def assert_greedy(bundle: Path, prompt: Prompt, said: list[int]) -> None:
    """Assert that each token is what Python's session finds likeliest after those before it.

    A token may be behind by TOLERANCE of the largest logit: the app feeds what its cache lacks, and sums over another
    number of rows round otherwise.
    """
    session, tokens = VisionLanguageSession(open_bundle(bundle)), list(prompt.tokens)
    session.take(tokens, prompt if len(prompt.pixels) else None)
    logits = session.prefill(tokens, 0)
    for token in said:
        assert logits[token] >= logits.max() - TOLERANCE * np.abs(logits).max(), (token, int(logits.argmax()))
        tokens.append(token)
        logits = session.prefill(tokens[-1:], len(tokens) - 1)


def assert_text(shown: str, said: list[int], model: Any, text: str, images: list[Path]) -> None:
    """Assert that the text of an answer is Python's, where both chose the same tokens."""
    wanted = model.generate(text, images=images, max_new_tokens=MOST)
    if said[: len(wanted.tokens)] == list(wanted.tokens):
        assert shown.replace("\\n", "\n") == wanted.text


def turn(role: str, text: str, images: int = 0) -> dict[str, Any]:
    """A message of a conversation in parts, its images first."""
    return {"role": role, "content": [*[{"type": "image"}] * images, {"type": "text", "text": text}]}


def known_words(bundle: Path) -> dict[str, Any]:
    """The words of a tiny model's tokenizer, for the one in Swift."""
    folder = open_bundle(bundle).tokenizer_dir
    assert folder is not None
    described = json.loads((folder / "tokenizer.json").read_text())
    assert described["model"]["type"] == "WordLevel" and described["normalizer"] is None
    added = {token["content"]: token["id"] for token in described["added_tokens"]}
    words = {**described["model"]["vocab"], **added}
    return {
        "vocabulary": words,
        "added": list(added),
        "special": [token["id"] for token in described["added_tokens"] if token["special"]],
        "unknown": words[described["model"]["unk_token"]],
        "leading": open_tokenizer(folder)("")["input_ids"],
    }


def accepted_labels(bundle: Path) -> list[str]:
    """The labels of all golden texts of a bundle, since that tokenizer knows words alone."""
    golden = open_bundle(bundle).golden_path
    assert golden is not None
    return [*(vector.label for vector in read_golden(golden).texts), "chat"]


def placeholder_of(bundle: Path) -> str:
    """What stands in a text for an image."""
    described = read_preparation(bundle)
    assert described is not None and described.preparation is not None
    return described.preparation.texts.placeholder


def in_base64(image: Any) -> str:
    """The bytes of an image of Pillow or of an array."""
    return b64encode(image.tobytes()).decode()
