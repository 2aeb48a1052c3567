"""Images from outside: what is read is what transformers reads, everything else is a typed error."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from edgec.bundle.image_preparation import MAX_PIXELS, MAX_RATIO
from edgec.errors import InputError, ToolError
from edgec.runtime_py.media import image_file
from edgec.runtime_py.media.image_file import read_image
from tests.vision_language import picture


def code_of(source: Any) -> str:
    with pytest.raises(InputError) as error:
        read_image(source)
    return error.value.code


def empty_png(width: int, height: int, file: Path) -> Path:
    """A PNG file that claims a size and holds next to nothing."""
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(b"")),
        (b"IEND", b""),
    ]
    chunks = [struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in parts]
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))
    return file


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.webp", "a.gif", "a.bmp", "a.tiff"])
def test_files_are_read_as_transformers_reads_them(name: str, tmp_path: Path) -> None:
    from transformers.image_utils import load_image

    picture(40, 30).save(tmp_path / name)
    read = read_image(str(tmp_path / name))
    assert read.mode == "RGB" and read.size == (40, 30)
    assert np.array_equal(np.asarray(read), np.asarray(load_image(str(tmp_path / name))))


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGBA", "CMYK", "YCbCr"])
def test_other_colours_become_rgb_as_in_transformers(mode: str, tmp_path: Path) -> None:
    from transformers.image_utils import load_image

    file = tmp_path / "a.tiff"
    picture(9, 7).convert(mode).save(file)
    assert np.array_equal(np.asarray(read_image(file)), np.asarray(load_image(str(file))))


def test_a_jpeg_of_four_colours_becomes_rgb_as_in_transformers(tmp_path: Path) -> None:
    from transformers.image_utils import load_image

    file = tmp_path / "cmyk.jpg"
    picture(40, 30).convert("CMYK").save(file)
    with Image.open(file) as stored:
        assert stored.mode == "CMYK"
    read = read_image(file)
    assert read.mode == "RGB" and np.array_equal(np.asarray(read), np.asarray(load_image(str(file))))


def test_a_rotation_noted_by_a_camera_is_applied(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    picture(40, 30).save(tmp_path / "a.png", exif=exif)
    turned = read_image(tmp_path / "a.png")
    assert turned.size == (30, 40)
    assert np.array_equal(np.asarray(turned), np.rot90(np.asarray(picture(40, 30)), -1))


def test_one_pixel_is_an_image_like_any_other() -> None:
    assert read_image(picture(1, 1)).size == (1, 1)


def test_sizes_are_refused_before_pixels_are_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image.Image, "load", lambda *_: pytest.fail("pixels were decoded"))
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda *_: pytest.fail("pixels were decoded"))
    side = int(MAX_PIXELS**0.5) + 1
    for width, height in ((30_000, 30_000), (side, side), (1, MAX_RATIO + 1), (10 * MAX_RATIO + 1, 10)):
        assert code_of(empty_png(width, height, tmp_path / "a.png")) == "E654"


def test_animated_images_are_refused(tmp_path: Path) -> None:
    for name in ("a.gif", "a.webp", "a.png"):
        frames = [picture(seed=seed) for seed in range(3)]
        frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:])
        assert code_of(tmp_path / name) == "E655"


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.webp", "a.gif"])
def test_truncated_files_are_refused(name: str, tmp_path: Path) -> None:
    picture(200, 200).save(tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    for share in (0.0, 0.01, 0.5):
        (tmp_path / name).write_bytes(whole[: int(len(whole) * share)])
        assert code_of(tmp_path / name) == "E653"


def test_what_is_no_image_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("no image")
    (tmp_path / "a.eps").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    deep = Image.fromarray(np.full((4, 4), 60_000, np.uint16))
    values = (np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3), np.float32), np.zeros((0, 4, 3), np.uint8))
    for source in (tmp_path / "a.txt", tmp_path / "a.eps", tmp_path / "absent.png", tmp_path, deep, 5, None, *values):
        assert code_of(source) == "E653"


def test_without_pillow_there_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(ToolError) as error:
        image_file.read_image("a.png")
    assert error.value.code == "E670"
