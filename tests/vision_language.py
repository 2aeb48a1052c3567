"""Tiny random vision-language models of transformers' own classes, with tokenizers and image processors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from edgec.runtime_py.vision_language.processor import of_images
from tests.vision_sized import SIZE, SIZED, SIZED_PROCESSORS
from tests.vision_words import IMAGE_TOKEN, MARKS, TEMPLATE, TEXT, VISION, VOCABULARY, tokenizer


def _llava() -> Any:
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

    vision = CLIPVisionConfig(**VISION, image_size=24, patch_size=8)
    text = LlamaConfig(**TEXT, vocab_size=VOCABULARY, eos_token_id=2)
    return LlavaForConditionalGeneration(
        LlavaConfig(
            vision_config=vision,
            text_config=text,
            image_token_index=IMAGE_TOKEN,
            image_seq_length=9,
            tie_word_embeddings=False,
        )
    )


def _idefics3(prefix: str = "Idefics3") -> Any:
    import transformers

    vision = {**VISION, "image_size": 32, "patch_size": 8}
    text = transformers.LlamaConfig(**TEXT, vocab_size=VOCABULARY, eos_token_id=2)
    config = getattr(transformers, f"{prefix}Config")(
        vision_config=vision, text_config=text, image_token_id=IMAGE_TOKEN, scale_factor=2, pad_token_id=0
    )
    return getattr(transformers, f"{prefix}ForConditionalGeneration")(config)


def _gemma3() -> Any:
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration, Gemma3TextConfig, SiglipVisionConfig

    vision = SiglipVisionConfig(**VISION, image_size=32, patch_size=8)
    text = Gemma3TextConfig(**TEXT, head_dim=8, vocab_size=VOCABULARY, eos_token_id=2, sliding_window=192)
    marks = {"boi_token_index": 5, "eoi_token_index": 6, "image_token_index": IMAGE_TOKEN}
    return Gemma3ForConditionalGeneration(
        Gemma3Config(vision_config=vision, text_config=text, mm_tokens_per_image=4, **marks)
    )


def _paligemma() -> Any:
    from transformers import GemmaConfig, PaliGemmaConfig, PaliGemmaForConditionalGeneration, SiglipVisionConfig

    vision = SiglipVisionConfig(**VISION, image_size=24, patch_size=8, vision_use_head=False)
    # The processor adds a thousand tokens of places to any tokenizer.
    text = GemmaConfig(**TEXT, head_dim=8, vocab_size=1280, eos_token_id=2)
    sizes = {"projection_dim": 32, "image_token_index": IMAGE_TOKEN, "hidden_size": 32}
    return PaliGemmaForConditionalGeneration(PaliGemmaConfig(vision_config=vision, text_config=text, **sizes))


def _internvl() -> Any:
    from transformers import InternVLConfig, InternVLForConditionalGeneration, InternVLVisionConfig, Qwen2Config

    vision = InternVLVisionConfig(**VISION, image_size=[32, 32], patch_size=[8, 8])
    text = Qwen2Config(**TEXT, vocab_size=VOCABULARY, eos_token_id=2, tie_word_embeddings=False)
    return InternVLForConditionalGeneration(
        InternVLConfig(vision_config=vision, text_config=text, image_token_id=IMAGE_TOKEN, tie_word_embeddings=False)
    )


FAMILIES: Mapping[str, Callable[[], Any]] = {
    "llava": _llava,
    "idefics3": _idefics3,
    "smolvlm": lambda: _idefics3("SmolVLM"),
    "gemma3": _gemma3,
    "paligemma": _paligemma,
    "internvl": _internvl,
    **SIZED,
}


@lru_cache(maxsize=2)
def tiny_vision_language(family: str) -> Any:
    """A random model of a family, whose weights are large enough that it says various tokens."""
    torch.manual_seed(0)
    return enlivened(FAMILIES[family](), family)


def enlivened(model: Any, family: str) -> Any:
    """A model with weights so large that it says various tokens."""
    hidden = model.config.get_text_config().hidden_size
    # Gemma scales its embeddings, which are also its lm_head.
    embedded = 2.0 / hidden**2 if "gemma" in family else 1.0
    for name, parameter in model.eval().requires_grad_(False).named_parameters():
        if parameter.dim() > 1:
            width = embedded if "embed_tokens" in name else 2.0 / parameter[0].numel()
            parameter.normal_(0, width**0.5)
        elif family in ("gemma3", "paligemma") and "language_model" in name:
            parameter.normal_(0, 3)
    return model


def processor(family: str) -> Any:
    """Transformers' own processor of a family, on images of any size."""
    return SIZED_PROCESSORS[family]() if family in SIZED else _PROCESSORS[family](tokenizer())


def _llava_processor(words: Any) -> Any:
    from transformers import CLIPImageProcessorPil, LlavaProcessor

    images = CLIPImageProcessorPil(size={"shortest_edge": 24}, crop_size={"height": 24, "width": 24})
    strategy = {"vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    return LlavaProcessor(images, words, patch_size=8, chat_template=TEMPLATE, **strategy)


def _idefics3_processor(words: Any) -> Any:
    from transformers import Idefics3ImageProcessorPil, Idefics3Processor

    images = Idefics3ImageProcessorPil(size={"longest_edge": 64}, max_image_size={"longest_edge": 32})
    return Idefics3Processor(images, words, image_seq_len=4, chat_template=TEMPLATE)


def _gemma3_processor(_: Any) -> Any:
    from transformers import Gemma3ImageProcessorPil, Gemma3Processor

    marks = {"boi_token": MARKS[5], "eoi_token": MARKS[6], "image_token": "<image>"}
    images, words = Gemma3ImageProcessorPil(size={"height": 32, "width": 32}), tokenizer(extra_special_tokens=marks)
    return Gemma3Processor(images, words, image_seq_length=4, chat_template=TEMPLATE.replace("<image>", MARKS[5]))


def _paligemma_processor(words: Any) -> Any:
    from transformers import PaliGemmaProcessor, SiglipImageProcessorPil

    images = SiglipImageProcessorPil(size={"height": 24, "width": 24})
    images.image_seq_length = 9
    return PaliGemmaProcessor(images, words, chat_template=TEMPLATE)


def _internvl_processor(_: Any) -> Any:
    from transformers import GotOcr2ImageProcessorPil, InternVLProcessor

    marks = {"start_image_token": MARKS[5], "end_image_token": MARKS[6], "context_image_token": "<image>"}
    words = tokenizer(extra_special_tokens={**marks, "video_token": MARKS[7]})
    images = GotOcr2ImageProcessorPil(size={"height": 32, "width": 32}, crop_to_patches=True, max_patches=4)
    options = {"image_seq_length": 4, "chat_template": TEMPLATE}
    return of_images(InternVLProcessor)(images, words, None, **options)


_PROCESSORS: Mapping[str, Callable[[Any], Any]] = {
    "llava": _llava_processor,
    "idefics3": _idefics3_processor,
    "smolvlm": _idefics3_processor,
    "gemma3": _gemma3_processor,
    "paligemma": _paligemma_processor,
    "internvl": _internvl_processor,
}


def save_vision_language(family: str, folder: Path) -> Path:
    """A folder with a family's random model, its tokenizer and its image processor."""
    tiny_vision_language(family).save_pretrained(folder)
    return save_processor(family, folder)


def save_processor(family: str, folder: Path, made: Any = None) -> Path:
    """A folder with a family's tokenizer and image processor, or with another processor of its class."""
    made = made or processor(family)
    if family == "internvl" or family in SIZED:
        # Their processors cannot be saved without one of videos: three files as in older folders.
        made.image_processor.do_resize = True
        made.image_processor.save_pretrained(folder)
        made.tokenizer.save_pretrained(folder)
        described: dict[str, object] = {"processor_class": type(made).__name__}
        described |= {"image_seq_length": 4} if family == "internvl" else {}
        (folder / "processor_config.json").write_text(json.dumps(described))
    else:
        made.save_pretrained(folder)
    return folder


def shown(family: str, image: Any) -> Any:
    """An image as a family's own processor should get it: in the middle of a tile of one size, where it has no own."""
    from PIL import Image

    if family not in SIZED:
        return image
    height, width = SIZE
    scale = min(height / image.height, width / image.width)
    inner = (round(image.width * scale), round(image.height * scale))
    mean = processor(family).image_processor.image_mean
    mixed = Image.Resampling.BILINEAR if family == "lfm2_vl" else Image.Resampling.BICUBIC
    tile = Image.new("RGB", (width, height), tuple(round(255 * part) for part in mean))
    place = (round((width - inner[0]) / 2), round((height - inner[1]) / 2))
    tile.paste(image.resize(inner, mixed), place)
    return tile


def picture(width: int = 50, height: int = 40, seed: int = 0) -> Any:
    """An image of coloured noise."""
    from PIL import Image

    values = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(values)
