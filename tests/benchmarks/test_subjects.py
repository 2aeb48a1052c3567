"""The models are those of their configs, and the recipe exists as edgec reads it."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from benchmarks.harness.artifacts import MAKERS
from benchmarks.harness.cases import CASES, longest
from benchmarks.harness.models import LONG, Q8L, QWEN3, SMOL, TINY, WINDOW, Model, write_config
from benchmarks.harness.subjects import EQUAL, EQUAL_KV, LONG_CONTEXT, MORE, QUICK_CONTEXT, SPEED, Subject
from benchmarks.peers.environment import ENVIRONMENTS
from edgec.exporter.recipes.checks import check_recipe
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.recipe import Recipe

ALL = [s for group in (*SPEED.values(), *MORE.values(), LONG_CONTEXT, QUICK_CONTEXT) for s in group]


@pytest.mark.parametrize("model", [Q8L, SMOL, QWEN3, LONG, WINDOW, TINY], ids=lambda model: model.name)
def test_weights_are_counted_as_transformers_counts_them(model: Model, tmp_path: Path) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(write_config(model, tmp_path))
    with torch.device("meta"):
        built = AutoModelForCausalLM.from_config(config)
    assert model.parameters == sum(p.numel() for p in built.parameters() if p.ndim > 1)
    assert built.config.num_hidden_layers == model.config["num_hidden_layers"]


def test_sizes_of_the_published_models() -> None:
    assert round(SMOL.parameters / 1e6) == 134
    assert round(QWEN3.parameters / 1e6) == 596
    assert Q8L.config["num_hidden_layers"] == 8
    assert Q8L.kv_values(1024) == 2 * 8 * 1024 * 8 * 128


@pytest.mark.parametrize("subject", ALL, ids=lambda s: f"{s.model.name} {s.name}")
def test_subjects_can_be_made_and_measured(subject: Subject) -> None:
    assert subject.maker in MAKERS
    assert Path(__file__).parents[2].joinpath(*subject.worker.split(".")).with_suffix(".py").is_file()
    if subject.maker == "edgec":
        assert set(subject.options["changes"]) <= {field.name for field in fields(Recipe)}
        check_recipe(replace(load_recipe(subject.options["recipe"]), **subject.options["changes"]), "xnnpack")


def test_only_runtimes_that_can_be_held_to_avx2_are() -> None:
    held = SPEED["q8L-avx2"]
    assert [s.maker for s in held] == ["edgec", "gguf", "gguf"] and {s.isa for s in held} == {"avx2"}
    flags = ENVIRONMENTS["gguf avx2"].variables["CMAKE_ARGS"]
    assert "GGML_NATIVE=OFF" in flags and "AVX512" not in flags
    assert "--no-cache-dir" in ENVIRONMENTS["gguf avx2"].options


def test_the_recipe_has_the_bits_of_its_peer() -> None:
    recipe = load_recipe(EQUAL)
    assert (recipe.weights, recipe.weight_bits) == (recipe.lm_head, 4.5)
    assert recipe.embedding is not None and (recipe.embedding.bits, recipe.embedding.group_size) == (4, 32)
    assert recipe.kv_dtype == EQUAL_KV


def test_artifacts_serve_the_longest_case() -> None:
    assert all(s.context >= longest(CASES["full"]) for s in (*SPEED["q8L"], *SPEED["smol"], *SPEED["qwen3"]))
    assert all(s.context >= longest(CASES["quick"]) for s in SPEED["tiny"])
    assert all(s.context >= 8192 for s in LONG_CONTEXT)
    assert len({s.name for s in LONG_CONTEXT}) == len(LONG_CONTEXT)
