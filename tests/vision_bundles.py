"""Bundles of tiny random vision-language models, exported once."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import edgec
from tests.vision_language import save_vision_language
from tests.vision_sized import SIZE, SIZED

CONTEXT = 160


@cache
def vision_bundle(family: str, recipe: str = "float") -> Path:
    """A bundle of a family, whose prompts have up to ``CONTEXT`` tokens."""
    folder = save_vision_language(family, Path(mkdtemp(prefix="edgec-")) / family)
    size = "x".join(map(str, SIZE)) if family in SIZED else None
    return edgec.export(folder, recipe=recipe, out=folder.parent / "x.edgec", context=CONTEXT, image_size=size)
