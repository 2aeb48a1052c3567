"""A small decoder as each of the three Apple artifacts, made by ``edgec.export``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch

FORMATS: Mapping[str, str] = {"mlpackage": "model.mlpackage", "pte": "model.pte", "aimodel": "model.aimodel"}
CONTEXT = 128
# Random weights: four bits flip many of their top tokens.
LOOSE = {"kl_mean": 5.0, "top1_agreement": 0.0}


@pytest.fixture(scope="session")
def phone_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random two-layer Llama, wide enough that its weights outweigh the tables of its positions."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from tests.runtime_py.tiny_decoder import VOCAB, tiny_tokenizer

    torch.manual_seed(0)
    shape = {"hidden_size": 192, "intermediate_size": 384, "num_hidden_layers": 2, "head_dim": 32, "vocab_size": VOCAB}
    heads = {"num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 256}
    special = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "initializer_range": 0.1}
    folder = tmp_path_factory.mktemp("phone-model")
    LlamaForCausalLM(LlamaConfig(**shape, **heads, **special)).eval().save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def phone_bundle(phone_model: Path, stage_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The bundle of a format and recipe, exported at its first use. Read only: copy it before changing it."""
    import edgec
    from edgec.exporter.recipes.file import load_recipe
    from edgec.exporter.recipes.text import recipe_text

    folder, made = tmp_path_factory.mktemp("phone"), dict[tuple[str, str], Path]()

    def bundle(kind: str, recipe: str = "float") -> Path:
        if (kind, recipe) not in made:
            out = folder / f"{kind}-{recipe}.edgec"
            (folder / f"{recipe}.toml").write_text(recipe_text(replace(load_recipe(recipe), budgets=LOOSE)))
            asked = recipe if recipe == "float" else folder / f"{recipe}.toml"
            made[kind, recipe] = edgec.export(
                phone_model, target="iphone", format=kind, recipe=asked, context=CONTEXT, out=out
            )
        return made[kind, recipe]

    return bundle
