"""The image processors of all families, tiny and of published sizes, with the preparations that are read off them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.bundle.entry_points import Limits, PatchesInfo, VisionLanguageInfo
from edgec.bundle.image_preparation import PreparationFile
from edgec.exporter.assemble.image_preparation import described_preparation
from edgec.runtime_py.vision_language.processor import PromptProcessor
from tests.vision_language import processor, save_processor
from tests.vision_sized import SIZE
from tests.vision_words import IMAGE_TOKEN

_BLOCKS, _LINES = PatchesInfo(size=4, merge=2, frames=2), PatchesInfo(size=4, merge=2, order="lines")
_TILES = PatchesInfo(size=4, merge=2, order="tiles")
_QWEN = {"height": SIZE[0], "width": SIZE[1], "rows": 20, "patches": _BLOCKS, "grid": (4, 5)}
_CLIP: Mapping[str, Any] = {"size": {"shortest_edge": 336}, "crop_size": {"height": 336, "width": 336}}


@dataclass(frozen=True)
class PreparedCase:
    """A processor to prepare images with.

    Attributes:
        family: of the tiny models.
        info: what the manifest says of the vision.
        images: changed fields of the image processor's description.
        own: changed fields of the processor's description.
    """

    family: str
    info: Mapping[str, Any]
    images: Mapping[str, Any] | None = None
    own: Mapping[str, Any] | None = None

    def prompts(self, folder: Path) -> PromptProcessor:
        """Transformers' processor of a folder that is written here."""
        save_processor(self.family, folder)
        _change(folder, self.images or {}, self.own or {})
        sizes = {"channels": 3, "height": 32, "width": 32, "rows": 4, "image_token": IMAGE_TOKEN, **self.info}
        limits = Limits(context=4096, prefill_chunk=128, logit_rows=16)
        return PromptProcessor(folder, VisionLanguageInfo(**{"limits": limits, **sizes}), self.tokenizer)

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer, which its processor has not changed."""
        return processor(self.family).tokenizer

    def described(self, folder: Path) -> PreparationFile:
        """What an export writes down of it."""
        return described_preparation(self.prompts(folder), self.tokenizer)


def _change(folder: Path, images: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Change the descriptions in a processor's folder, of which the newer one nests that of images."""
    path = folder / "processor_config.json"
    described = json.loads(path.read_text())
    if "image_processor" in described:
        described["image_processor"] |= images
    else:
        file = folder / "preprocessor_config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **images}))
    path.write_text(json.dumps({**described, **own}))


CASES: Mapping[str, PreparedCase] = {
    "llava": PreparedCase("llava", {"height": 24, "width": 24, "rows": 9}),
    "idefics3": PreparedCase("idefics3", {}),
    "smolvlm": PreparedCase("smolvlm", {}),
    "gemma3": PreparedCase("gemma3", {}),
    "paligemma": PreparedCase("paligemma", {"height": 24, "width": 24, "rows": 9}),
    "internvl": PreparedCase("internvl", {}),
    "qwen2_vl": PreparedCase("qwen2_vl", _QWEN),
    "qwen2_5_vl": PreparedCase("qwen2_5_vl", _QWEN),
    "qwen3_vl": PreparedCase("qwen3_vl", _QWEN),
    "qwen3_5": PreparedCase("qwen3_5", _QWEN),
    "gemma4": PreparedCase("gemma4", {**_QWEN, "patches": _LINES, "grid": None}),
    "lfm2_vl": PreparedCase("lfm2_vl", {"rows": 16, "patches": _TILES}),
    "lfm2_vl, of one tile": PreparedCase("lfm2_vl", {**_QWEN, "patches": _TILES, "grid": None}),
}
"""A case for each family, of the sizes of the tiny models."""
PUBLISHED: Mapping[str, PreparedCase] = {
    "LLaVA 1.5": PreparedCase("llava", {"height": 336, "width": 336, "rows": 576}, _CLIP, {"patch_size": 14}),
    "SmolVLM 256M": PreparedCase(
        "smolvlm",
        {"height": 512, "width": 512, "rows": 64},
        {"size": {"longest_edge": 2048}, "max_image_size": {"longest_edge": 512}},
        {"image_seq_len": 64},
    ),
    "Idefics3 8B": PreparedCase(
        "idefics3",
        {"height": 364, "width": 364, "rows": 169},
        {"size": {"longest_edge": 1456}, "max_image_size": {"longest_edge": 364}},
        {"image_seq_len": 169},
    ),
    "Gemma 3 4B": PreparedCase(
        "gemma3",
        {"height": 896, "width": 896, "rows": 256},
        {"size": {"height": 896, "width": 896}},
        {"image_seq_length": 256},
    ),
    "InternVL3": PreparedCase(
        "internvl",
        {"height": 448, "width": 448, "rows": 256},
        {"size": {"height": 448, "width": 448}, "min_patches": 1, "max_patches": 12},
        {"image_seq_length": 256},
    ),
    "LFM2-VL": PreparedCase(
        "lfm2_vl",
        {"height": 512, "width": 512, "rows": 256, "patches": PatchesInfo(size=16, merge=2, order="tiles")},
        {"tile_size": 512, "max_image_tokens": 256, "encoder_patch_size": 16},
    ),
}
"""Processors with the settings that the published models have, over words of the tiny ones."""
EDGES = [(1, 1), (1, 90), (90, 1), (2, 3), (17, 31), (33, 32), (64, 64), (100, 60), (127, 255), (300, 11), (7, 650)]
"""Widths and heights of images: of one pixel, of extreme proportions, odd, smaller and larger than tiles."""
