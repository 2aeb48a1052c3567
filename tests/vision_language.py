"""Tiny random vision-language models of transformers' own classes, with tokenizers and image processors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from edgec.runtime_py.vision_language.processor import without_videos

_WORDS = ("what", "is", "this", "a", "red", "house", "with", "two", "doors", ":", "User", "Assistant", "and", "here")
_MARKS = ("<pad>", "<s>", "</s>", "<unk>", "<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>")
_GRID = tuple(f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7))
_NEWLINES = ("\n", "\n\n")
IMAGE_TOKEN = _MARKS.index("<image>")
TEMPLATE = (
    "{% for message in messages %}{{ message['role'].capitalize() }} : "
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %} "
    "{% endfor %}{% if add_generation_prompt %}Assistant :{% endif %}"
)
_TEXT = {
    **{"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2},
    **{"intermediate_size": 48, "max_position_embeddings": 256, "pad_token_id": 0, "bos_token_id": 1},
}
_VISION = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 40}


def vocabulary() -> dict[str, int]:
    """Marks, words, the marks of tiles and line breaks."""
    return {token: index for index, token in enumerate((*_MARKS, *_WORDS, *_GRID, *_NEWLINES))}


VOCABULARY = len(vocabulary())


def tokenizer(**options: Any) -> Any:
    """A tokenizer of words."""
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel(vocabulary(), unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
    words.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in (*_MARKS, *_GRID)])
    words.add_tokens([AddedToken(each, normalized=False) for each in _NEWLINES])
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    made = PreTrainedTokenizerFast(tokenizer_object=words, **names, **options)
    made.chat_template = TEMPLATE
    return made


def _llava() -> Any:
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

    vision = CLIPVisionConfig(**_VISION, image_size=24, patch_size=8)
    text = LlamaConfig(**_TEXT, vocab_size=VOCABULARY, eos_token_id=2)
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

    vision = {**_VISION, "image_size": 32, "patch_size": 8}
    text = transformers.LlamaConfig(**_TEXT, vocab_size=VOCABULARY, eos_token_id=2)
    config = getattr(transformers, f"{prefix}Config")(
        vision_config=vision, text_config=text, image_token_id=IMAGE_TOKEN, scale_factor=2, pad_token_id=0
    )
    return getattr(transformers, f"{prefix}ForConditionalGeneration")(config)


def _gemma3() -> Any:
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration, Gemma3TextConfig, SiglipVisionConfig

    vision = SiglipVisionConfig(**_VISION, image_size=32, patch_size=8)
    text = Gemma3TextConfig(**_TEXT, head_dim=8, vocab_size=VOCABULARY, eos_token_id=2, sliding_window=192)
    marks = {"boi_token_index": 5, "eoi_token_index": 6, "image_token_index": IMAGE_TOKEN}
    return Gemma3ForConditionalGeneration(
        Gemma3Config(vision_config=vision, text_config=text, mm_tokens_per_image=4, **marks)
    )


def _paligemma() -> Any:
    from transformers import GemmaConfig, PaliGemmaConfig, PaliGemmaForConditionalGeneration, SiglipVisionConfig

    vision = SiglipVisionConfig(**_VISION, image_size=24, patch_size=8, vision_use_head=False)
    # The processor adds a thousand tokens of places to any tokenizer.
    text = GemmaConfig(**_TEXT, head_dim=8, vocab_size=1280, eos_token_id=2)
    sizes = {"projection_dim": 32, "image_token_index": IMAGE_TOKEN, "hidden_size": 32}
    return PaliGemmaForConditionalGeneration(PaliGemmaConfig(vision_config=vision, text_config=text, **sizes))


def _internvl() -> Any:
    from transformers import InternVLConfig, InternVLForConditionalGeneration, InternVLVisionConfig, Qwen2Config

    vision = InternVLVisionConfig(**_VISION, image_size=[32, 32], patch_size=[8, 8])
    text = Qwen2Config(**_TEXT, vocab_size=VOCABULARY, eos_token_id=2, tie_word_embeddings=False)
    return InternVLForConditionalGeneration(
        InternVLConfig(vision_config=vision, text_config=text, image_token_id=IMAGE_TOKEN, tie_word_embeddings=False)
    )


def _qwen(prefix: str, vision: Mapping[str, Any], **text: Any) -> Any:
    """A model whose images are 32 x 40 pixels in the tests: a grid of 4 x 5 rows, which windows do not divide."""
    import transformers

    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1], "partial_rotary_factor": 1.0}
    marks = {"vision_start_token_id": 5, "vision_end_token_id": 6, "video_token_id": 7}
    config = getattr(transformers, f"{prefix}Config")(
        text_config={**_TEXT, "vocab_size": VOCABULARY, "eos_token_id": 2, "rope_parameters": rope, **text},
        vision_config={"depth": 3, "num_heads": 2, "patch_size": 4, **vision},
        image_token_id=IMAGE_TOKEN,
        tie_word_embeddings=False,
        **marks,
    )
    return getattr(transformers, f"{prefix}ForConditionalGeneration")(config)


_STRETCHED = {"hidden_size": 24, "intermediate_size": 40, "out_hidden_size": 32, "num_position_embeddings": 9}
_WINDOWS = {"hidden_size": 24, "intermediate_size": 40, "out_hidden_size": 32, "window_size": 16}
_DELTA = {
    **{"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8},
    "layer_types": ["linear_attention", "full_attention"],
}
SIZED: Mapping[str, Callable[[], Any]] = {
    "qwen2_vl": lambda: _qwen("Qwen2VL", {"embed_dim": 24, "hidden_size": 32, "mlp_ratio": 2}),
    "qwen2_5_vl": lambda: _qwen("Qwen2_5_VL", {**_WINDOWS, "fullatt_block_indexes": [1]}),
    "qwen3_vl": lambda: _qwen("Qwen3VL", {**_STRETCHED, "deepstack_visual_indexes": [0, 2]}, head_dim=8),
    "qwen3_5": lambda: _qwen("Qwen3_5", _STRETCHED, head_dim=8, **_DELTA),
}
"""Families whose images have the size that the export gives them."""
SIZE = (32, 40)
"""Height and width of their images in the tests."""
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
    model = FAMILIES[family]().eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            # Gemma scales its embeddings, which are also its lm_head.
            embedded = 1 / 512 if "gemma" in family else 1.0
            width = embedded if "embed_tokens" in name else 2.0 / parameter[0].numel()
            parameter.normal_(0, width**0.5)
        elif "gemma" in family and "language_model" in name:
            parameter.normal_(0, 3)
    return model


def processor(family: str) -> Any:
    """Transformers' own processor of a family, on images of any size."""
    return _PROCESSORS[family](tokenizer())


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

    marks = {"boi_token": _MARKS[5], "eoi_token": _MARKS[6], "image_token": "<image>"}
    images, words = Gemma3ImageProcessorPil(size={"height": 32, "width": 32}), tokenizer(extra_special_tokens=marks)
    return Gemma3Processor(images, words, image_seq_length=4, chat_template=TEMPLATE.replace("<image>", _MARKS[5]))


def _paligemma_processor(words: Any) -> Any:
    from transformers import PaliGemmaProcessor, SiglipImageProcessorPil

    images = SiglipImageProcessorPil(size={"height": 24, "width": 24})
    images.image_seq_length = 9
    return PaliGemmaProcessor(images, words, chat_template=TEMPLATE)


def _internvl_processor(_: Any) -> Any:
    from transformers import GotOcr2ImageProcessorPil, InternVLProcessor

    marks = {"start_image_token": _MARKS[5], "end_image_token": _MARKS[6], "context_image_token": "<image>"}
    words = tokenizer(extra_special_tokens={**marks, "video_token": _MARKS[7]})
    images = GotOcr2ImageProcessorPil(size={"height": 32, "width": 32}, crop_to_patches=True, max_patches=4)
    options = {"image_seq_length": 4, "chat_template": TEMPLATE}
    return without_videos(InternVLProcessor)(images, words, None, **options)


def _qwen_processor(name: str) -> Any:
    import transformers

    marks = {"vision_start_token": _MARKS[5], "vision_end_token": _MARKS[6], "video_token": _MARKS[7]}
    words = tokenizer(extra_special_tokens={**marks, "image_token": "<image>"})
    # By itself it would give images every size.
    images = transformers.Qwen2VLImageProcessorPil(patch_size=4, min_pixels=64, max_pixels=1 << 16)
    return without_videos(getattr(transformers, name))(images, words, None, chat_template=TEMPLATE)


_PROCESSORS: Mapping[str, Callable[[Any], Any]] = {
    "llava": _llava_processor,
    "idefics3": _idefics3_processor,
    "smolvlm": _idefics3_processor,
    "gemma3": _gemma3_processor,
    "paligemma": _paligemma_processor,
    "internvl": _internvl_processor,
    "qwen2_vl": lambda _: _qwen_processor("Qwen2VLProcessor"),
    "qwen2_5_vl": lambda _: _qwen_processor("Qwen2_5_VLProcessor"),
    "qwen3_vl": lambda _: _qwen_processor("Qwen3VLProcessor"),
    "qwen3_5": lambda _: _qwen_processor("Qwen3VLProcessor"),
}


def save_vision_language(family: str, folder: Path) -> Path:
    """A folder with a family's random model, its tokenizer and its image processor."""
    tiny_vision_language(family).save_pretrained(folder)
    return save_processor(family, folder)


def save_processor(family: str, folder: Path) -> Path:
    """A folder with a family's tokenizer and image processor."""
    made = processor(family)
    if family == "internvl" or family in SIZED:
        # Their processors cannot be saved without one of videos: three files as in older folders.
        made.image_processor.save_pretrained(folder)
        made.tokenizer.save_pretrained(folder)
        described = {"processor_class": type(made).__name__}
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
    tile = Image.new("RGB", (width, height), tuple(round(255 * part) for part in mean))
    place = (round((width - inner[0]) / 2), round((height - inner[1]) / 2))
    tile.paste(image.resize(inner, Image.Resampling.BICUBIC), place)
    return tile


def picture(width: int = 50, height: int = 40, seed: int = 0) -> Any:
    """An image of coloured noise."""
    from PIL import Image

    values = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(values)
