"""Published shapes of models that see and hear, with random weights: the words of transformers about the same."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import edgec
from edgec.bundle.folder import open_bundle
from edgec.runtime_py.vision_language.processor import of_images
from tests.encoder_decoders import greedy_text
from tests.speech_bundles import RATE, spoken, write_wav
from tests.vision_language import enlivened, picture, save_processor
from tests.vision_words import IMAGE_TOKEN, MARKS, TEMPLATE, VOCABULARY, tokenizer

pytestmark = pytest.mark.slow
COUNT = 16
ARCHITECTURES = Path(__file__).parents[2] / "benchmarks" / "architectures"
SENTENCE = "The quick brown fox jumps over the lazy dog."


def architecture(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((ARCHITECTURES / f"{name}.json").read_text())
    return read


@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng is not installed")
def test_whisper_tiny_hears_a_spoken_sentence_as_transformers_does(tmp_path: Path) -> None:
    from transformers import WhisperFeatureExtractor

    model, folder = whisper_tiny(), tmp_path / "whisper-tiny"
    model.save_pretrained(folder)
    _, samples = spoken(SENTENCE, tmp_path)
    read = WhisperFeatureExtractor(feature_size=80)(samples, sampling_rate=RATE, return_tensors="pt").input_features
    assert read.shape == (1, 80, 3000)
    start = model.config.decoder_start_token_id
    wanted = [token for token in greedy_text(model, read, COUNT) if token != start]
    heard = edgec.load(edgec.export(folder, recipe="float", out=tmp_path / "x.edgec"))
    (segment,) = heard.transcribe(write_wav(tmp_path / "a.wav", samples), max_new_tokens=COUNT).segments
    assert list(segment.tokens) == wanted and len(set(wanted)) > 4
    (other,) = heard.transcribe(samples[::-1].copy(), max_new_tokens=COUNT).segments
    assert other.tokens != segment.tokens, "the sound is heard"


@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng is not installed")
def test_whisper_tiny_as_a_core_ml_package_hears_a_spoken_sentence_as_transformers_does(tmp_path: Path) -> None:
    from transformers import WhisperFeatureExtractor

    model, folder = whisper_tiny(), tmp_path / "whisper-tiny"
    model.save_pretrained(folder)
    _, samples = spoken(SENTENCE, tmp_path)
    read = WhisperFeatureExtractor(feature_size=80)(samples, sampling_rate=RATE, return_tensors="pt").input_features
    start = model.config.decoder_start_token_id
    wanted = [token for token in greedy_text(model, read, COUNT) if token != start]
    bundle = edgec.export(folder, target="iphone", format="mlpackage", recipe="float", out=tmp_path / "x.edgec")
    (segment,) = edgec.load(bundle).transcribe(samples, max_new_tokens=COUNT).segments
    # The sixth leads by 0.1 % of the largest logit, which float16 may turn over on another machine; here all are equal.
    assert list(segment.tokens)[:5] == wanted[:5] and len(segment.tokens) == len(wanted)
    manifest = open_bundle(bundle).manifest
    # Float16, and the embedding that is the lm_head too is stored once.
    assert manifest.ledger is not None and manifest.ledger.weight_bytes < 2.1 * manifest.model.parameters
    assert not manifest.lint


def whisper_tiny() -> Any:
    """The shape of Whisper tiny with weights so large that it says various tokens."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    torch.manual_seed(0)
    model = WhisperForConditionalGeneration(WhisperConfig(**architecture("whisper-tiny"))).eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1 and "embed_positions" not in name:
            # Embeddings are the lm_head, too: larger ones would repeat the token before.
            parameter.normal_(0, 0.05 if "embed" in name else (2.0 / parameter[0].numel()) ** 0.5)
    return model


def _qwen3_vl() -> Any:
    """Qwen3-VL 4B: its two kinds of layers twice each, rows for the first two layers of the text."""
    import transformers

    rope = {"rope_type": "default", "rope_theta": 5e6, "mrope_section": [24, 20, 20], "mrope_interleaved": True}
    text = {"hidden_size": 2560, "intermediate_size": 9728, "num_attention_heads": 32, "num_key_value_heads": 8}
    vision = {"hidden_size": 1024, "intermediate_size": 4096, "num_heads": 16, "patch_size": 16}
    rows = {"out_hidden_size": 2560, "num_position_embeddings": 2304, "deepstack_visual_indexes": [0, 1]}
    config = transformers.Qwen3VLConfig(
        text_config={**text, **_LAYERS, "head_dim": 128, "rope_parameters": rope},
        vision_config={"depth": 2, **vision, **rows},
        **{"vision_start_token_id": 5, "vision_end_token_id": 6, "video_token_id": 7},
        **{"image_token_id": IMAGE_TOKEN, "tie_word_embeddings": False},
    )
    return transformers.Qwen3VLForConditionalGeneration(config)


def _qwen3_vl_processor() -> Any:
    import transformers

    marks = {"vision_start_token": MARKS[5], "vision_end_token": MARKS[6], "video_token": MARKS[7]}
    words = tokenizer(extra_special_tokens={**marks, "image_token": "<image>"})
    half = [0.5, 0.5, 0.5]
    sizes = {"patch_size": 16, "min_pixels": 1 << 16, "max_pixels": 1 << 24, "image_mean": half, "image_std": half}
    images = transformers.Qwen2VLImageProcessorPil(**sizes)
    return of_images(transformers.Qwen3VLProcessor)(images, words, None, chat_template=TEMPLATE)


def _gemma3() -> Any:
    """Gemma 3 4B: a layer with a window and one without."""
    import transformers

    text = {"hidden_size": 2560, "intermediate_size": 10240, "num_attention_heads": 8, "num_key_value_heads": 4}
    kinds = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 1024, "head_dim": 256}
    vision = {"hidden_size": 1152, "intermediate_size": 4304, "num_attention_heads": 16, "num_hidden_layers": 2}
    config = transformers.Gemma3Config(
        text_config={**text, **_LAYERS, **kinds, "query_pre_attn_scalar": 256},
        vision_config={**vision, "image_size": 896, "patch_size": 14, "vision_use_head": False},
        mm_tokens_per_image=256,
        **{"boi_token_index": 5, "eoi_token_index": 6, "image_token_index": IMAGE_TOKEN},
    )
    return transformers.Gemma3ForConditionalGeneration(config)


def _gemma3_processor() -> Any:
    import transformers

    marks = {"boi_token": MARKS[5], "eoi_token": MARKS[6], "image_token": "<image>"}
    images = transformers.Gemma3ImageProcessorPil(size={"height": 896, "width": 896})
    template = TEMPLATE.replace("<image>", MARKS[5])
    words = tokenizer(extra_special_tokens=marks)
    return transformers.Gemma3Processor(images, words, image_seq_length=256, chat_template=template)


def _smolvlm() -> Any:
    """SmolVLM-256M, with its vocabulary: the shape that the benchmark of senses times, with fewer layers."""
    import transformers

    read = architecture("smolvlm-256m") | {"image_token_id": IMAGE_TOKEN, "pad_token_id": 0}
    read["text_config"] |= {"num_hidden_layers": 6, "pad_token_id": 0}
    read["vision_config"] |= {"num_hidden_layers": 4}
    return transformers.Idefics3ForConditionalGeneration(transformers.Idefics3Config(**read))


def _smolvlm_processor() -> Any:
    import transformers

    # As published: a picture becomes up to 2,048 pixels long, in tiles of 512 x 512 and the whole.
    sizes = {"size": {"longest_edge": 2048}, "max_image_size": {"longest_edge": 512}}
    images = transformers.Idefics3ImageProcessorPil(**sizes)
    return transformers.Idefics3Processor(images, tokenizer(), image_seq_len=64, chat_template=TEMPLATE)


# What is cut of a published config: its layers to two, its vocabulary to the words of the tests.
_LAYERS = {
    **{"num_hidden_layers": 2, "vocab_size": VOCABULARY, "max_position_embeddings": 8192},
    **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
}


@dataclass(frozen=True)
class Shape:
    """A published shape: its family, its model, transformers' processor, and the size of the pictures."""

    family: str
    model: Callable[[], Any]
    processor: Callable[[], Any]
    size: tuple[int, int]


SHAPES: Mapping[str, Shape] = {
    "qwen3-vl-4b": Shape("qwen3_vl", _qwen3_vl, _qwen3_vl_processor, (512, 512)),
    "gemma3-4b": Shape("gemma3", _gemma3, _gemma3_processor, (640, 480)),
    # 4 x 3 tiles and the whole: 832 rows.
    "smolvlm-256m": Shape("idefics3", _smolvlm, _smolvlm_processor, (640, 480)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_published_shape_says_about_pictures_what_transformers_says(name: str, tmp_path: Path) -> None:
    shape = SHAPES[name]
    torch.manual_seed(0)
    model, made = enlivened(shape.model(), shape.family), shape.processor()
    model.save_pretrained(tmp_path / name)
    pictures = [picture(*shape.size, seed=seed) for seed in (0, 1)]
    wanted = [said_by_transformers(model, made, image) for image in pictures]
    del model
    bundle = edgec.export(save_processor(shape.family, tmp_path / name, made), recipe="float", out=tmp_path / "x.edgec")
    said = edgec.load(bundle)
    found = [said.generate("what is this", images=[image], max_new_tokens=COUNT).tokens for image in pictures]
    assert [list(tokens) for tokens in found] == wanted and wanted[0] != wanted[1]


def said_by_transformers(model: Any, made: Any, image: Any) -> list[int]:
    """The new tokens of transformers' own greedy generation about a picture."""
    given = made(text=f"{made.image_token}what is this", images=[[image]], return_tensors="pt")
    with torch.no_grad():
        out = model.generate(**given, max_new_tokens=COUNT, do_sample=False)
    said: list[int] = out[0, given["input_ids"].shape[1] :].tolist()
    return said
