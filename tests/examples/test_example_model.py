"""The example model is small and regular, and loads without a network."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer

MODEL = Path(__file__).resolve().parents[2] / "examples" / "tiny-stories"


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((MODEL / "config.json").read_text())
    return loaded


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(MODEL, local_files_only=True)


@pytest.fixture(scope="module")
def model() -> Any:
    return AutoModelForCausalLM.from_pretrained(MODEL, local_files_only=True, dtype=torch.float32).eval()


def test_model_has_three_to_six_million_parameters(model: Any) -> None:
    assert 3e6 < sum(parameter.numel() for parameter in model.parameters()) < 6e6


def test_weights_are_half_precision_and_small() -> None:
    path = MODEL / "model.safetensors"
    assert path.stat().st_size <= 12_000_000
    with safe_open(path, framework="pt") as file:
        names = list(file.keys())
        assert {file.get_tensor(name).dtype for name in names} == {torch.bfloat16}
    assert "lm_head.weight" not in names


def test_widths_are_multiples_of_32(config: dict[str, Any]) -> None:
    head = config["hidden_size"] // config["num_attention_heads"]
    widths = [config["hidden_size"], config["intermediate_size"], config["vocab_size"], head]
    assert [width % 32 for width in widths] == [0, 0, 0, 0]


def test_config_is_a_tied_llama_with_grouped_queries(config: dict[str, Any]) -> None:
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert config["dtype"] == "bfloat16"
    assert config["tie_word_embeddings"]
    assert config["num_attention_heads"] == 2 * config["num_key_value_heads"]


def test_model_predicts_english(model: Any, tokenizer: Any) -> None:
    ids = torch.tensor([tokenizer.encode("Lily was very happy, and she played with her mom in the park all day.")])
    shuffled = torch.cat([ids[:, :1], ids[:, 1:].flip(1)], dim=1)
    with torch.no_grad():
        assert model(input_ids=ids, labels=ids).loss < 4.5 < model(input_ids=shuffled, labels=shuffled).loss


def test_the_end_is_likely_where_a_story_ends_and_nowhere_else(model: Any, tokenizer: Any) -> None:
    at_end, elsewhere = [], []
    for story in (MODEL / "held-out.txt").read_text().split("\n\n")[:6]:
        with torch.no_grad():
            logits = model(tokenizer(story, return_tensors="pt").input_ids).logits[0]
        likely = logits.softmax(-1)[:, tokenizer.eos_token_id]
        at_end.append(likely[-1])
        elsewhere.append(likely[:-1].mean())
    # Measured: 0.53 and 0.0016.
    assert sum(at_end) / 6 > 0.3 and sum(elsewhere) / 6 < 0.01


@pytest.mark.parametrize(
    "text",
    [
        "To be, or not to be:\n\nthat is  the question.",
        "Grüße aus Zürich, 12345 € — naïve café",
        "こんにちは、世界。 你好，世界！ 안녕",
        "Привет, мир! שלום עולם مرحبا नमस्ते",
        "tabs\tand\r\nlines, 👩‍👩‍👧 🇨🇭 \u200b\u0000",
    ],
)
def test_tokenizer_keeps_any_text(tokenizer: Any, text: str) -> None:
    ids = tokenizer.encode(text)
    assert ids[0] == tokenizer.bos_token_id
    assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_a_conversation_is_a_story_told_in_turns(tokenizer: Any) -> None:
    said = ["Once upon a time", "there was a cat.", " It ran. "]
    chat = [
        {"role": role, "content": content} for role, content in zip(("user", "assistant", "user"), said, strict=True)
    ]
    wanted = "<s>Once upon a time there was a cat. It ran."
    assert tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) == wanted


def test_model_card_states_its_figures() -> None:
    card = (MODEL / "README.md").read_text()
    match = re.search(r"([\d.]+) nats per token", card)
    assert match is not None and 1.0 < float(match[1]) < 4.5
    assert re.search(r"[\d.]+ bits per byte", card)
