"""``edgec adapt --low-rank``: an adapter beside a bundle's integers, measured by the engine that executes it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import edgec
from edgec.cli.app import run_cli
from edgec.errors import InputError
from edgec.exporter.adapt.adapt import Adapted, adapt
from edgec.exporter.adapt.settings import Settings
from edgec.exporter.sources.resolve import resolve
from edgec.runtime_py.adapters.adapter_file import read_adapter
from edgec.runtime_py.adapters.make import make_adapter
from edgec.runtime_py.adapters.peft_folder import read_peft
from edgec.runtime_py.sessions.session import Session
from tests.runtime_py.adapters.loras import exported, session_logits

pytestmark = pytest.mark.long

TINY_STORIES = Path("examples/tiny-stories")
RECIPE = """
algorithm = "rtn"

[weights]
kind = "balanced"
group_rows = 1

[lm_head]
bits = 8
group_size = 0

[embedding]
bits = 8
group_size = 0

[cache]
dtype = "float16"

[limits]
context = 128
prefill_chunk = 32
logit_rows = 16

[budgets]
kl_mean = 20.0
top1_agreement = 0.0
"""
SETTINGS = Settings(
    steps=60, batch=4, length=48, learning_rate=1e-2, low_rank=8, held_out_tokens=192, evaluate_every=60
)


@pytest.fixture(scope="module")
def two_bits(tiny_folder: Path, stage_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of the tiny random Llama in two bits; own.toml, beside it, is its recipe."""
    return exported(tiny_folder, tmp_path_factory.mktemp("two-bits"), RECIPE)


@pytest.fixture(scope="module")
def trained(tiny_folder: Path, story: Path, two_bits: Path, tmp_path_factory: pytest.TempPathFactory) -> Adapted:
    """An adapter for that bundle, taught by the float model."""
    out, own = tmp_path_factory.mktemp("trained") / "recovered", two_bits.parent / "own.toml"
    return adapt(tiny_folder, recipe=own, text=[story], out=out, settings=SETTINGS, bundle=two_bits)


def float_logits(model: Path, tokens: Sequence[int]) -> Tensor:
    from transformers import AutoModelForCausalLM

    teacher: Any = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    with torch.no_grad():
        logits: Tensor = teacher(torch.tensor([list(tokens)])).logits[0]
    return logits


def distance(teacher: Tensor, student: Tensor) -> float:
    """Mean KL(teacher || student), nats per token."""
    own, wanted = (torch.log_softmax(logits.double(), -1) for logits in (student, teacher))
    return float(torch.nn.functional.kl_div(own, wanted, reduction="batchmean", log_target=True))


def distances(bundle: Path, adapter: Path, model: Path, tokens: Sequence[int]) -> tuple[float, float]:
    """The bundle's distance from the float model as the engine executes it, without and with an adapter."""
    teacher, session = float_logits(model, tokens), Session(bundle)
    without = distance(teacher, session_logits(session, tokens))
    session.adapter = adapter
    return without, distance(teacher, session_logits(session, tokens))


def test_the_executed_bundle_comes_closer_to_the_float_model(
    tiny_folder: Path, story: Path, two_bits: Path, trained: Adapted
) -> None:
    assert trained.adapter is not None
    tokens = edgec.load(two_bits).encode(story.read_text()[:400])[:96]
    without, adapted = distances(two_bits, trained.adapter, tiny_folder, tokens)
    first, last = trained.curve[0].divergence, trained.curve[-1].divergence
    assert first is not None and last is not None and last < 0.8 * first
    # Other tokens than the held-out ones: the engine's share of the loss that is left is that of training, within 15 %.
    assert adapted < 0.8 * without and adapted / without == pytest.approx(last / first, abs=0.15)


def test_the_folder_and_the_file_hold_the_same_adapter(two_bits: Path, trained: Adapted, tmp_path: Path) -> None:
    assert trained.adapter is not None
    made = make_adapter(two_bits, trained.path, tmp_path / "again.adapter")
    assert made.adapter.digest == read_adapter(trained.adapter).digest
    assert {module.rank for module in made.adapter.modules} == {8} and len(made.adapter.modules) == 14


def test_peft_reads_the_folder(tiny_folder: Path, trained: Adapted) -> None:
    peft = pytest.importorskip("peft", reason="PEFT is not installed")
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32).eval()
    tokens = torch.arange(5, 37)[None]
    with torch.no_grad():
        for module in read_peft(trained.path).modules:
            weight = base.get_submodule(module.name).weight
            weight += torch.from_numpy(module.b.floats() @ module.a.floats())
        merged = base(tokens).logits
        fresh = AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32)
        adapted = peft.PeftModel.from_pretrained(fresh, trained.path).eval()(tokens).logits
    # W + B A as one matrix and as two products: float32 sums in another order.
    assert torch.allclose(adapted, merged, atol=1e-3)


@pytest.mark.slow
def test_the_command_says_what_comes_next(
    tiny_folder: Path, story: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["adapt", str(tiny_folder), "--recipe", "4bit", "--text", str(story), "--low-rank", "2", "--steps", "2"]
    line += ["--batch", "2", "--length", "32", "--out", str(tmp_path / "lora")]
    assert run_cli(line) == 0
    assert f"edgec adapter BUNDLE {tmp_path / 'lora'}" in " ".join(capsys.readouterr().out.split())
    assert {file.name for file in (tmp_path / "lora").iterdir()} == {
        *("adapter_config.json", "adapter_model.safetensors", "README.md", "report.html", "training.json")
    }
    assert "PEFT" in (tmp_path / "lora" / "README.md").read_text()
    assert run_cli([*line, "--json"]) == 1 and json.loads(capsys.readouterr().out)["error"]["code"] == "E508"
    assert run_cli([*line, "--force"]) == 0


@pytest.mark.slow
def test_what_does_not_fit_is_refused_before_training(
    tiny_folder: Path, story: Path, two_bits: Path, tiny_bundle: Path, tmp_path: Path
) -> None:
    (tmp_path / "taken.adapter").touch()
    cases: list[tuple[dict[str, Any], str]] = [
        ({"recipe": "4bit", "bundle": two_bits}, "E699"),
        ({"recipe": "float"}, "E506"),
        ({"recipe": "float", "settings": replace(SETTINGS, text_loss=1.0)}, "E698"),
        ({"recipe": "4bit-gptq"}, "E509"),
        ({"bundle": tiny_bundle}, "E690"),
        ({"bundle": two_bits, "settings": replace(SETTINGS, low_rank=0)}, "E501"),
        ({"bundle": two_bits, "settings": replace(SETTINGS, merge=True)}, "E501"),
        ({"bundle": two_bits, "out": tmp_path / "taken"}, "E120"),
    ]
    own = two_bits.parent / "own.toml"
    for arguments, code in cases:
        given: dict[str, Any] = {"recipe": own, "out": tmp_path / "new", "settings": SETTINGS, "text": [story]}
        with pytest.raises(InputError) as caught:
            adapt(tiny_folder, **(given | arguments))
        assert caught.value.code == code and not (tmp_path / "new").exists()
    with pytest.raises(InputError, match="E501"):
        Settings(merge=True)


@pytest.mark.slow
def test_two_bits_of_a_trained_model_win_back_what_rounding_lost(tmp_path: Path) -> None:
    source = resolve(str(TINY_STORIES))
    assert source.path is not None
    bundle = exported(source.path, tmp_path, RECIPE.replace("context = 128", "context = 512"))
    settings = Settings(steps=40, batch=4, length=128, learning_rate=3e-3, low_rank=16, evaluate_every=40)
    text = source.path / "held-out.txt"
    done = adapt(
        source.path, recipe=tmp_path / "own.toml", text=[text], out=tmp_path / "a", settings=settings, bundle=bundle
    )
    tokens = edgec.load(bundle).encode(text.read_text()[-1500:])[:200]
    assert done.adapter is not None
    without, adapted = distances(bundle, done.adapter, source.path, tokens)
    assert adapted < 0.7 * without
