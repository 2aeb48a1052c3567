"""Tiny random speech-language models of transformers' own classes, with tokenizers and processors of sound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tests.speech_bundles import RATE

# Windows of 2 s: 200 frames of 16 features, of which the encoders make 100 positions.
SECONDS, MELS, FRAMES = 2, 16, 200
_WORDS = ("what", "is", "said", "here", "a", "dog", "barks", ":", "User", "Assistant", "and", "music", "two", "loud")
MARKS = (
    *("<pad>", "<s>", "</s>", "<unk>", "<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>", "<sound>", "[AUDIO]"),
    *("[BEGIN_AUDIO]", "[INST]", "[/INST]", "<|im_start|>", "<|im_end|>"),
)
AUDIO_MARKS = {"voxtral": "[AUDIO]", "qwen2_audio": "<|AUDIO|>", "audioflamingo3": "<sound>", "glmasr": "<sound>"}
ROWS = {"voxtral": 25, "qwen2_audio": 50, "audioflamingo3": 50, "glmasr": 25}
"""Of a window."""
TEMPLATE = (
    "{% for message in messages %}{{ message['role'].capitalize() }} : "
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'audio' %}<sound>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %} "
    "{% endfor %}{% if add_generation_prompt %}Assistant :{% endif %}"
)
_TEXT = {
    **{"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2},
    **{"intermediate_size": 48, "max_position_embeddings": 256, "pad_token_id": 0, "bos_token_id": 1},
    **{"vocab_size": len(MARKS) + len(_WORDS), "eos_token_id": 2, "head_dim": 8},
}
_AUDIO = {
    **{"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 96},
    "num_mel_bins": MELS,
}


def tokenizer(template: str | None = None) -> Any:
    """A tokenizer of words."""
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: index for index, token in enumerate((*MARKS, *_WORDS))}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
    words.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in MARKS])
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    made = PreTrainedTokenizerFast(tokenizer_object=words, **names)
    made.chat_template = template
    return made


def _model(name: str, audio: Mapping[str, Any], **options: Any) -> Any:
    import transformers

    text = {**_TEXT, "model_type": "qwen2" if name in ("Qwen2Audio", "AudioFlamingo3") else "llama"}
    config = getattr(transformers, f"{name}Config")(
        audio_config={**_AUDIO, **audio}, text_config=text, tie_word_embeddings=False, **options
    )
    return getattr(transformers, f"{name}ForConditionalGeneration")(config)


def _token(family: str) -> int:
    return MARKS.index(AUDIO_MARKS[family])


_WHISPERS = {
    **{"d_model": 24, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 40},
    "max_source_positions": FRAMES // 2,
}
FAMILIES: Mapping[str, Callable[[], Any]] = {
    "voxtral": lambda: _model(
        "Voxtral", {"model_type": "voxtral_encoder", "max_source_positions": 100}, audio_token_id=_token("voxtral")
    ),
    "qwen2_audio": lambda: _model(
        "Qwen2Audio", {"model_type": "qwen2_audio_encoder", **_WHISPERS}, audio_token_index=_token("qwen2_audio")
    ),
    "audioflamingo3": lambda: _model(
        "AudioFlamingo3",
        {"model_type": "audioflamingo3_encoder", "max_source_positions": 100},
        audio_token_id=_token("audioflamingo3"),
    ),
    "glmasr": lambda: _model(
        "GlmAsr", {"model_type": "glmasr_encoder", "max_position_embeddings": 100}, audio_token_id=_token("glmasr")
    ),
}
MASKED = ("qwen2_audio", "audioflamingo3")
"""Families whose encoder leaves silence out of attention."""


@lru_cache(maxsize=4)
def tiny_audio_language(family: str) -> Any:
    """A random model of a family, whose weights are large enough that it says various tokens."""
    torch.manual_seed(0)
    model = FAMILIES[family]().eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1 and "embed_positions" not in name:
            parameter.normal_(0, (1.0 if "embed_tokens" in name else 2.0 / parameter[0].numel()) ** 0.5)
    return model


def processor(family: str) -> Any:
    """Transformers' own processor of a family, which cuts sounds into windows of 2 s."""
    import transformers

    features = transformers.WhisperFeatureExtractor(feature_size=MELS, chunk_length=SECONDS)
    if family == "voxtral":
        return transformers.VoxtralProcessor(features, tokenizer())
    if family == "qwen2_audio":
        return transformers.Qwen2AudioProcessor(features, tokenizer())
    maker = {"audioflamingo3": "AudioFlamingo3Processor", "glmasr": "GlmAsrProcessor"}[family]
    options = {"chat_template": TEMPLATE, "audio_token": "<sound>", "max_audio_len": 3 * SECONDS}
    return getattr(transformers, maker)(features, tokenizer(TEMPLATE), **options)


def given_by(family: str, text: str, sounds: Sequence[NDArray[np.float32]]) -> dict[str, torch.Tensor]:
    """What transformers makes of a text and sounds; ``text`` has the family's placeholder once for each."""
    if family == "voxtral":
        return _as_mistral_common(text, sounds)
    made = processor(family)(text=[text], audio=list(sounds), sampling_rate=RATE, return_tensors="pt")
    return dict(made)


def _as_mistral_common(text: str, sounds: Sequence[NDArray[np.float32]]) -> dict[str, torch.Tensor]:
    """Voxtral's processor makes features alone: mistral-common, which writes as many tokens as a window has rows."""
    made, mark, size = processor("voxtral"), AUDIO_MARKS["voxtral"], SECONDS * RATE
    parts = text.split(mark)
    rows = [mark * (ROWS["voxtral"] * -(-sound.size // size)) for sound in sounds]
    text = "".join(part + row for part, row in zip(parts, [*rows, ""], strict=True))
    options = {**made.audio_kwargs, "pad_to_multiple_of": size}
    frames = options.pop("max_source_positions") and FRAMES
    features = made._retrieve_input_features([np.asarray(sound) for sound in sounds], frames, **options)
    return {"input_ids": torch.tensor([made.tokenizer(text)["input_ids"]]), "input_features": features}


def save_audio_language(family: str, folder: Path) -> Path:
    """A folder with a family's random model, its tokenizer and the descriptions of its processor."""
    tiny_audio_language(family).save_pretrained(folder)
    made = processor(family)
    made.feature_extractor.save_pretrained(folder)
    if family not in ("voxtral", "qwen2_audio"):
        made.save_pretrained(folder)
    made.tokenizer.save_pretrained(folder)
    return folder


def noise(seconds: float, seed: int = 0) -> NDArray[np.float32]:
    """A tone under noise, float32 [N]."""
    count = round(seconds * RATE)
    drawn = np.random.default_rng(seed)
    tone = np.sin(np.arange(count) * (0.05 + 0.03 * seed)) * np.linspace(0.2, 0.8, count)
    made: NDArray[np.float32] = (tone + drawn.normal(0, 0.05, count)).astype(np.float32)
    return made
