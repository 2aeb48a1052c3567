"""Tiny random vision-language models whose images have the size that the export gives them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from edgec.runtime_py.vision_language.processor import of_images
from tests.vision_words import IMAGE_TOKEN, MARKS, TEMPLATE, TEXT, VISION, VOCABULARY, tokenizer


def _qwen(prefix: str, vision: Mapping[str, Any], **text: Any) -> Any:
    """A model whose images are 32 x 40 pixels in the tests: a grid of 4 x 5 rows, which windows do not divide."""
    import transformers

    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1], "partial_rotary_factor": 1.0}
    marks = {"vision_start_token_id": 5, "vision_end_token_id": 6, "video_token_id": 7}
    config = getattr(transformers, f"{prefix}Config")(
        text_config={**TEXT, "vocab_size": VOCABULARY, "eos_token_id": 2, "rope_parameters": rope, **text},
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


def _gemma4() -> Any:
    from transformers import Gemma4Config, Gemma4ForConditionalGeneration

    # The processor adds a token to any tokenizer.
    words = VOCABULARY + 1
    kinds = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 24, "head_dim": 8}
    layers = {"hidden_size_per_layer_input": 6, "vocab_size_per_layer_input": words, "global_head_dim": 16}
    heads = {"num_key_value_heads": 2, "head_dim": 12, "position_embedding_size": 16}
    pooled = {"patch_size": 4, "pooling_kernel_size": 2, "standardize": True, "use_clipped_linears": True}
    marks = {"boi_token_id": 5, "eoi_token_id": 6, "image_token_id": IMAGE_TOKEN, "video_token_id": 7}
    config = Gemma4Config(
        text_config={**TEXT, **kinds, **layers, "vocab_size": words, "eos_token_id": 2},
        vision_config={**VISION, **heads, **pooled},
        audio_config=None,
        **{**marks, "audio_token_id": 4, "boa_token_id": 3, "eoa_token_index": 3},
    )
    made = Gemma4ForConditionalGeneration(config)
    made.model.vision_tower.std_bias.normal_()
    made.model.vision_tower.std_scale.fill_(0.5)
    return made


def _lfm2_vl() -> Any:
    from transformers import Lfm2VlConfig, Lfm2VlForConditionalGeneration

    kinds = {"model_type": "lfm2", "layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False}
    patches = {"model_type": "siglip2_vision_model", "patch_size": 4, "num_patches": 16, "vision_use_head": False}
    config = Lfm2VlConfig(
        text_config={**TEXT, **kinds, "vocab_size": VOCABULARY, "eos_token_id": 2},
        vision_config={**VISION, **patches},
        image_token_id=IMAGE_TOKEN,
        projector_hidden_size=40,
    )
    return Lfm2VlForConditionalGeneration(config)


SIZED: Mapping[str, Callable[[], Any]] = {
    "qwen2_vl": lambda: _qwen("Qwen2VL", {"embed_dim": 24, "hidden_size": 32, "mlp_ratio": 2}),
    "qwen2_5_vl": lambda: _qwen("Qwen2_5_VL", {**_WINDOWS, "fullatt_block_indexes": [1]}),
    "qwen3_vl": lambda: _qwen("Qwen3VL", {**_STRETCHED, "deepstack_visual_indexes": [0, 2]}, head_dim=8),
    "qwen3_5": lambda: _qwen("Qwen3_5", _STRETCHED, head_dim=8, **_DELTA),
    "gemma4": _gemma4,
    "lfm2_vl": _lfm2_vl,
}
"""Families whose images have the size that the export gives them."""
SIZE = (32, 40)
"""Height and width of their images in the tests."""


def _qwen_processor(name: str, model_type: str = "") -> Any:
    import transformers

    marks = {"vision_start_token": MARKS[5], "vision_end_token": MARKS[6], "video_token": MARKS[7]}
    words = tokenizer(extra_special_tokens={**marks, "image_token": "<image>"})
    words = _beside_config(words, model_type) if model_type else words
    # By itself it would give images every size.
    images = transformers.Qwen2VLImageProcessorPil(patch_size=4, min_pixels=64, max_pixels=1 << 16)
    return of_images(getattr(transformers, name))(images, words, None, chat_template=TEMPLATE)


def _beside_config(words: Any, model_type: str) -> Any:
    """A tokenizer as transformers reads it beside the config of a family whose class it prefers to the tokenizer's."""
    import transformers

    with TemporaryDirectory() as folder:
        words.save_pretrained(folder)
        (Path(folder) / "config.json").write_text(json.dumps({"model_type": model_type}))
        return transformers.AutoTokenizer.from_pretrained(folder)


def _gemma4_processor() -> Any:
    from transformers import Gemma4ImageProcessorPil, Gemma4Processor

    marks = {"boi_token": MARKS[5], "eoi_token": MARKS[6], "image_token": "<image>", "audio_token": "<s>"}
    words = tokenizer(extra_special_tokens={**marks, "boa_token": "<unk>", "eoa_token": "<unk>"})
    # It would give images a size by the most rows that they may have.
    images = Gemma4ImageProcessorPil(patch_size=4, pooling_kernel_size=2, max_soft_tokens=70, do_resize=False)
    return of_images(Gemma4Processor)(None, images, words, None, chat_template=TEMPLATE)


class WholeImages:
    """What transformers' image processor of LFM2-VL, which needs torchvision, makes of images of ``SIZE``."""

    image_mean = (0.5, 0.5, 0.5)
    use_thumbnail, tile_size, encoder_patch_size, downsample_factor = True, 512, 4, 2

    def fetch_images(self, images: Any) -> Any:
        """The images themselves."""
        return images

    def __call__(self, images: Sequence[Sequence[Any]], **_: Any) -> Mapping[str, Any]:
        """Patches line by line, none of which is padding."""
        every = [np.asarray(image, np.float32) for several in images for image in several]
        assert {each.shape[:2] for each in every} == {SIZE}, "it scales nothing"
        high, wide = SIZE[0] // 4, SIZE[1] // 4
        cut = [each.reshape(high, 4, wide, 4, 3).transpose(0, 2, 1, 3, 4).reshape(high * wide, -1) for each in every]
        count = len(every)
        return {
            "pixel_values": (np.stack(cut) - 127.5) / 127.5,
            "pixel_attention_mask": np.ones((count, high * wide), np.int32),
            "spatial_shapes": np.array([[high, wide]] * count),
            **{"image_rows": [1] * count, "image_cols": [1] * count, "image_sizes": [list(SIZE)] * count},
        }

    def save_pretrained(self, folder: Path) -> None:
        """Describe it as the published models do; tiles of a grid are 32 pixels high and wide."""
        sizes = {"tile_size": 32, "max_image_tokens": 16, "encoder_patch_size": 4}
        described = {"image_processor_type": "Lfm2VlImageProcessorFast", "resample": 2, **sizes}
        (folder / "preprocessor_config.json").write_text(json.dumps(described))


def _lfm2_vl_processor() -> Any:
    from transformers import Lfm2VlProcessor

    marks = {"image_start_token": MARKS[5], "image_end_token": MARKS[6], "image_thumbnail_token": MARKS[7]}
    words = tokenizer(extra_special_tokens={**marks, "image_token": "<image>"})
    made = type("Lfm2VlProcessor", (Lfm2VlProcessor,), {"check_argument_for_proper_class": lambda *_: None})
    return made(WholeImages(), words, chat_template=TEMPLATE)


SIZED_PROCESSORS: Mapping[str, Callable[[], Any]] = {
    "qwen2_vl": partial(_qwen_processor, "Qwen2VLProcessor"),
    "qwen2_5_vl": partial(_qwen_processor, "Qwen2_5_VLProcessor"),
    "qwen3_vl": partial(_qwen_processor, "Qwen3VLProcessor"),
    "qwen3_5": partial(_qwen_processor, "Qwen3VLProcessor", "qwen3_5"),
    "gemma4": _gemma4_processor,
    "lfm2_vl": _lfm2_vl_processor,
}
