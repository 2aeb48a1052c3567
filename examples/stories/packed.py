"""A model folder whose weights are compressed: two-bit weights in float32 take a tenth of their bytes so."""

import lzma
import shutil
from pathlib import Path

WEIGHTS = "model.safetensors"
PACKED = WEIGHTS + ".xz"
# What a training leaves beside the model, and its card, which the shipped folder has of its own.
LEFT_OUT = (WEIGHTS, "report.html", "training.json", "README.md")
# Values of four bytes that repeat each other: the coder's contexts follow the place within a value, not the last byte.
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 0, "lp": 2, "pb": 2}]


def pack(folder: Path, out: Path) -> Path:
    """Copy a model folder, its weights compressed; returns ``out``."""
    shutil.copytree(folder, out, ignore=shutil.ignore_patterns(*LEFT_OUT), dirs_exist_ok=True)
    weights = (folder / WEIGHTS).read_bytes()
    (out / PACKED).write_bytes(lzma.compress(weights, format=lzma.FORMAT_XZ, filters=FILTERS))
    return out


def unpack(folder: Path, out: Path) -> Path:
    """Copy a packed folder, its weights as ``edgec export`` reads them; returns ``out``."""
    shutil.copytree(folder, out, ignore=shutil.ignore_patterns(PACKED), dirs_exist_ok=True)
    (out / WEIGHTS).write_bytes(lzma.decompress((folder / PACKED).read_bytes()))
    return out
