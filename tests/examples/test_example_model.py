"""The example model is small, regular, loads without a network, and its script trains and resumes."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer

from examples.training.files import save_checkpoint
from examples.training.loop import start, take_step, train
from examples.training.model import learning_rate, spent
from examples.training.settings import Progress, Settings, Shape
from examples.training.text import render_dialogue, split_text
from examples.training.tokens import CHAT_TEMPLATE

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples" / "tiny-llama"
PLAY = "\n\n".join(
    f"ROMEO:\nThe {word} is bright tonight, and so am I.\n\nJULIET:\nThen let the {word} be our witness, sir."
    for word in ("moon", "star", "lamp", "fire", "torch", "candle") * 500
)


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


@pytest.fixture
def settings(tmp_path: Path) -> Any:
    text = tmp_path / "play.txt"
    text.write_text(PLAY)
    base = Settings(texts=(text,), out=tmp_path / "model", checkpoint=tmp_path / "checkpoint.pt")
    return replace(base, steps=3, minutes=5.0, batch=2, length=32)


@pytest.fixture
def shape() -> Any:
    return Shape(vocabulary=320, hidden=32, layers=2, heads=2, kv_heads=1, intermediate=64, context=64)


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
    ids = torch.tensor([tokenizer.encode("He did not know what to say, and he looked at her with a smile.")])
    shuffled = torch.cat([ids[:, :1], ids[:, 1:].flip(1)], dim=1)
    with torch.no_grad():
        assert model(input_ids=ids, labels=ids).loss < 4.5 < model(input_ids=shuffled, labels=shuffled).loss


def test_model_ends_a_reply(model: Any, tokenizer: Any) -> None:
    chat = [{"role": "user", "content": "Good morrow, sir. What news?"}]
    ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    made = model.generate(**ids, max_new_tokens=200, do_sample=False)
    assert made[0, -1] == tokenizer.eos_token_id


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


def test_chat_template_writes_what_was_trained_on(tokenizer: Any) -> None:
    roles = ("user", "assistant", "user", "assistant")
    said = ["Who's there?", "Nay, answer me.", "Long live the king!", "You come most carefully."]
    chat = [{"role": role, "content": content} for role, content in zip(roles, said, strict=True)]
    assert tokenizer.apply_chat_template(chat, tokenize=False) == "<s>" + render_dialogue(said)
    asked = tokenizer.apply_chat_template(chat[:1], tokenize=False, add_generation_prompt=True)
    assert asked == "<s>CITIZEN:\nWho's there?\n\nMENENIUS:\n"


def test_model_card_states_held_out_loss() -> None:
    card = (MODEL / "README.md").read_text()
    match = re.search(r"([\d.]+) nats per token", card)
    assert match is not None and 2.0 < float(match[1]) < 4.5
    assert re.search(r"[\d.]+ bits per byte", card)


def test_split_keeps_every_paragraph_once() -> None:
    text = "\n\n".join(f"Paragraph {index}. " + "word " * 40 for index in range(2500)).strip()
    train, held_out = split_text(text)
    paragraphs = "\n\n".join([*train, *held_out]).split("\n\n")
    assert sorted(paragraphs) == sorted(text.split("\n\n"))
    assert 0.01 < sum(map(len, held_out)) / len(text) < 0.03


def test_schedule_follows_whichever_budget_is_spent_first(settings: Any) -> None:
    budget = replace(settings, steps=100, minutes=10.0)
    assert spent(budget, Progress(step=50, seconds=60.0)) == 0.5
    assert spent(budget, Progress(step=1, seconds=540.0)) == 0.9
    rates = [learning_rate(budget, share) for share in (0.0, 0.03, 0.5, 1.0)]
    assert rates[0] < rates[1] == budget.learning_rate > rates[2] > rates[3]


def test_training_writes_a_folder_that_loads(settings: Any, shape: Any) -> None:
    progress, loss = train(settings, shape)
    assert progress.step == 3
    assert 0 < loss.nats_per_token < 7 and loss.tokens > 0
    loaded = AutoModelForCausalLM.from_pretrained(settings.out, local_files_only=True)
    assert loaded.dtype == torch.bfloat16
    assert AutoTokenizer.from_pretrained(settings.out, local_files_only=True).chat_template == CHAT_TEMPLATE


def test_resumed_training_equals_uninterrupted(settings: Any, shape: Any) -> None:
    whole = replace(settings, out=settings.out.with_name("whole"), checkpoint=settings.checkpoint.with_name("whole.pt"))
    session, progress = start(settings, shape)
    take_step(session, progress)
    save_checkpoint(session, replace(progress, step=1))
    train(replace(settings, resume=True), shape)
    train(whole, shape)
    saved = [torch.load(one.checkpoint, weights_only=True)["model"] for one in (settings, whole)]
    assert all(torch.allclose(saved[0][name], saved[1][name], atol=1e-6) for name in saved[1])


def test_the_script_runs_from_any_folder(tmp_path: Path) -> None:
    script = ROOT / "examples" / "train_example.py"
    done = subprocess.run([sys.executable, script, "--help"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "--measure" in done.stdout, done.stderr
