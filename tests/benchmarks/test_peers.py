"""The peers run the same model: their logits against transformers. Skipped where their environment was not made."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness.artifacts import Workshop, float16_gguf
from benchmarks.harness.models import TINY, Model, weights, write_config
from benchmarks.harness.processes import ROOT, ProcessFailed, run_worker
from benchmarks.harness.subjects import LLAMA, Subject, llama, mnn, onnxruntime, openvino
from benchmarks.peers.environment import ENVIRONMENTS, REQUIREMENTS, peers_python
from benchmarks.peers.executorch_export import meta_parameters
from benchmarks.peers.tokenizer import folder_with_tokenizer

TOKENS = [(7 * i * i + 3) % 512 for i in range(24)]
# Neighbours and halves: the two rotary layouts that llama.cpp knows.
ROTATED = Model("rotated", "long-context-window", "a Mistral with another rotary layout")
_SMALL = (
    *(("hidden_size", 64), ("intermediate_size", 96), ("vocab_size", 512), ("max_position_embeddings", 1024)),
    *(("num_attention_heads", 4), ("num_key_value_heads", 2), ("head_dim", 32), ("dtype", "float32")),
    *(("num_experts_per_tok", 2), ("pad_token_id", None), ("bos_token_id", 1), ("eos_token_id", 2)),
)
# llama.cpp rounds the ends of YaRN's range of frequencies to whole numbers.
_YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": True,
    "original_max_position_embeddings": 256,
}
HYBRIDS = (
    Model(
        "small-lfm2",
        "lfm2-1.2b",
        "short convolutions",
        4,
        (*_SMALL, ("head_dim", 16), ("block_multiple_of", 32), ("full_attn_idxs", [1, 3])),
    ),
    Model(
        "small-qwen3-moe", "qwen3-30b-a3b", "experts", 2, (*_SMALL, ("num_experts", 6), ("moe_intermediate_size", 32))
    ),
    Model(
        "small-gpt-oss",
        "gpt-oss-20b",
        "experts, windows, sink logits",
        2,
        (*_SMALL, ("num_local_experts", 6), ("sliding_window", 8), ("rope_parameters", _YARN)),
    ),
)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    made = Path(os.environ.get("EDGEC_BENCH_PEERS", ROOT / "build" / "bench" / "peers"))
    if not (made / "bin" / "python").is_file():
        pytest.skip("no environment of the peers: make bench makes it")
    monkeypatch.setenv("EDGEC_BENCH_PEERS", str(made))
    return Workshop(tmp_path, "test")


def logits(shop: Workshop, artifact: Path, kv: str, rows: int) -> Any:
    import torch

    job = {"kind": "logits", "artifact": str(artifact), "threads": 1, "context": 64, "kv": kv}
    return torch.tensor(run_worker(LLAMA, {**job, "tokens": TOKENS, "rows": rows}, python=shop.peers)["logits"])


def reference(shop: Workshop, model: Model) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    folder = weights(model, shop.model_folder(model)).parent
    built = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        return built(torch.tensor([TOKENS])).logits[0]


@pytest.mark.long
@pytest.mark.parametrize("model", [TINY, ROTATED, *HYBRIDS], ids=lambda model: model.name)
def test_a_converted_model_gives_the_same_logits(model: Model, shop: Workshop) -> None:
    import torch

    actual, expected = logits(shop, float16_gguf(shop, model), "float32", len(TOKENS)), reference(shop, model)
    assert torch.equal(actual.argmax(-1), expected.argmax(-1))
    # llama.cpp rounds activations to float16 for float16 weights: 11 bits of the largest logit, over two layers.
    torch.testing.assert_close(actual, expected, atol=4e-3 * expected.abs().max().item(), rtol=0)


@pytest.mark.long
@pytest.mark.parametrize("preset", ["preset", "equal"])
def test_quantised_forms_are_near_and_differ_in_the_vocabulary(preset: str, shop: Workshop) -> None:
    import torch

    made = shop.made(Subject("q", TINY, LLAMA, "gguf", {"preset": preset}))
    actual, expected = logits(shop, made.path, "float16", 1)[0], reference(shop, TINY)[-1]
    # 4 bits keep the direction: 0.98 was measured; unrelated logits give 0.
    assert torch.corrcoef(torch.stack([actual, expected]))[0, 1] > 0.95
    bits = 8 * (made.decode_bytes or 0) / TINY.parameters
    assert bits < 4.8 if preset == "equal" else bits > 5.0
    assert made.cost is None


@pytest.mark.long
def test_an_artifact_is_made_once(shop: Workshop) -> None:
    subject = llama(TINY, "q", "equal")
    first = shop.made(subject)
    stamp = first.path.stat().st_mtime_ns
    assert shop.made(subject) == first
    assert first.path.stat().st_mtime_ns == stamp


def test_what_cannot_be_made_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.harness import artifacts

    tries: list[Path] = []

    def maker(_shop: Workshop, _subject: Subject, folder: Path) -> dict[str, Any]:
        tries.append(folder)
        raise ProcessFailed("no memory")

    monkeypatch.setitem(artifacts.MAKERS, "gguf", maker)
    shop, subject = Workshop(tmp_path, "test"), llama(TINY, "q", "equal")
    assert shop.can_make(subject)
    with pytest.raises(ProcessFailed):
        shop.made(subject)
    assert not shop.can_make(subject)
    assert shop.can_make(llama(TINY, "q", "preset"))


def test_a_given_environment_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEC_BENCH_PEERS", str(tmp_path / "mine"))
    assert peers_python(tmp_path) == tmp_path / "mine" / "bin" / "python"
    assert all("==" in pin for pin in REQUIREMENTS)


def test_an_environment_that_was_made_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EDGEC_BENCH_PEERS", raising=False)
    (tmp_path / "peers").mkdir()
    (tmp_path / "peers" / "installed.txt").write_text("\n".join(REQUIREMENTS))
    assert peers_python(tmp_path) == tmp_path / "peers" / "bin" / "python"


def test_each_environment_has_a_folder_and_a_variable_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEC_BENCH_MNN", str(tmp_path / "mine"))
    assert ENVIRONMENTS["mnn"].python(tmp_path) == tmp_path / "mine" / "bin" / "python"
    assert len({environment.name for environment in ENVIRONMENTS.values()}) == len(ENVIRONMENTS)
    pins = [pin for environment in ENVIRONMENTS.values() for pin in environment.requirements]
    assert all(pin.count("==") == 1 for pin in pins)
    assert ENVIRONMENTS["openvino"].versions()["openvino"] in ENVIRONMENTS["openvino"].wanted


def test_an_environment_that_cannot_be_installed_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.peers import environment

    tries: list[object] = []

    def broken(command: object, **_: Any) -> None:
        tries.append(command)
        raise ProcessFailed("ERROR: No matching distribution found")

    for name in ("EDGEC_BENCH_MNN", "EDGEC_BENCH_OPENVINO"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(environment, "run", broken)
    shop = Workshop(tmp_path, "test")
    for maker in ("mnn", "mnn", "openvino"):
        with pytest.raises(ProcessFailed, match="No matching distribution"):
            shop.python(maker)
    assert len(tries) == 2


def test_an_exporter_gets_a_tokenizer_of_the_whole_vocabulary(tmp_path: Path) -> None:
    source = tmp_path / "model"
    write_config(TINY, source)
    (source / "model.safetensors").touch()
    folder = folder_with_tokenizer(source, tmp_path / "with")
    assert json.loads((folder / "config.json").read_text()) == TINY.config
    made = json.loads((folder / "tokenizer.json").read_text())
    assert sorted(made["model"]["vocab"].values()) == list(range(TINY.config["vocab_size"]))
    assert folder_with_tokenizer(source, folder) == folder


@pytest.mark.slow
@pytest.mark.parametrize("make", [openvino, onnxruntime, mnn], ids=lambda make: make.__name__)
def test_a_peer_of_pypi_runs_the_same_model(
    make: Callable[[Model], Subject], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    subject = make(TINY)
    variable = f"EDGEC_BENCH_{subject.maker.upper()}"
    made = Path(os.environ.get(variable, ROOT / "build" / "bench" / subject.maker))
    if not (made / "bin" / "python").is_file():
        pytest.skip("no environment of this peer: make bench makes it")
    monkeypatch.setenv(variable, str(made))
    shop = Workshop(tmp_path, "test")
    artifact = shop.made(subject)
    assert artifact.cost and artifact.cost["cpu_s"] > 0 and artifact.cost["peak_bytes"] > 0
    python, job = shop.interpreter(subject), {"kind": "logits", "artifact": str(artifact.path), **subject.job}
    job |= {"threads": 1, "context": 64, "tokens": TOKENS}
    actual = torch.tensor(run_worker(subject.worker, {**job, "rows": len(TOKENS)}, python=python)["logits"])
    expected = reference(shop, TINY)
    # 4 bits keep the direction: 0.98 was measured; unrelated logits give 0.
    assert torch.corrcoef(torch.stack([actual.flatten(), expected.flatten()]))[0, 1] > 0.95
    last = torch.tensor(run_worker(subject.worker, {**job, "rows": 1}, python=python)["logits"])
    again = run_worker(subject.worker, {**job, "rows": 4, "again": 16}, python=python)["logits"]
    for rows in (last, torch.tensor(again)):
        # Calls of another size round activations and caches (float16) otherwise: 0.5 % was measured.
        torch.testing.assert_close(rows, actual[-len(rows) :], atol=2e-2 * expected.abs().max().item(), rtol=0)


def test_executorch_gets_the_shape_in_its_own_names() -> None:
    parameters = meta_parameters(TINY.config)
    assert [parameters[name] for name in ("dim", "n_layers", "n_kv_heads", "head_dim")] == [64, 2, 2, 32]
    assert parameters["use_qk_norm"]
    assert "use_qk_norm" not in meta_parameters({**TINY.config, "model_type": "llama"})
