"""A checkpoint with a separate lm_head whose config says that it is tied, from export to text."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import edgec
from tests.runtime_py.tiny_decoder import VOCAB, tiny_tokenizer
from tests.tiny_llama import tiny_llama

pytestmark = pytest.mark.long

EMBEDDING = "model.embed_tokens.weight"
PROMPT = [1, 40, 41, 42]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tied Llama, fine-tuned so that rows in the middle of its lm_head differ from the embedding's."""
    folder = tmp_path_factory.mktemp("untied") / "tiny"
    model = tiny_llama()
    model.config.tie_word_embeddings = True
    model.tie_weights()
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    head = tensors[EMBEDDING].clone()
    middle = slice(128, VOCAB - 128)
    head[middle] = -head[middle]
    save_file({**tensors, "lm_head.weight": head}, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def _own_tokens(folder: Path) -> list[int]:
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    tokens = torch.tensor([PROMPT])
    with torch.no_grad():
        for _ in range(12):
            tokens = torch.cat([tokens, model(tokens).logits[:, -1:].argmax(-1)], 1)
    written: list[int] = tokens[0, len(PROMPT) :].tolist()
    return written


@pytest.mark.slow
def test_words_are_those_of_transformers(folder: Path, tmp_path: Path) -> None:
    bundle = edgec.export(folder, target="host", recipe="float", out=tmp_path / "x.edgec")
    wanted = _own_tokens(folder)
    assert any(128 <= token < VOCAB - 128 for token in wanted)
    made = edgec.load(bundle).generate(PROMPT, max_new_tokens=12, temperature=0)
    assert list(made.tokens) == wanted[: len(made.tokens)] and len(made.tokens) > 4


def test_both_matrices_are_stored(folder: Path, tmp_path: Path) -> None:
    bundle = edgec.export(folder, target="host", recipe="8bit", out=tmp_path / "x.edgec")
    ledger = edgec.load(bundle).bundle.manifest.ledger
    assert ledger is not None
    assert {f"{EMBEDDING}_embedding_int", "lm_head.weight_int"} <= {row.name for row in ledger.rows}
