"""Every form of MODEL becomes a ModelSource whose weights make the same model again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
import transformers
from torch import nn

from edgec.exporter.sources.decoders.spec import model_spec
from edgec.exporter.sources.model_build import put_weights
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.modules.factory import state_digest
from edgec.exporter.sources.resolve import resolve
from edgec.exporter.sources.weights.names import BoundWeights
from tests.exporter.tiny_sources import (
    ENCODER,
    LLAMA,
    VISION,
    llama_shapes,
    llama_tensors,
    write_config,
    write_llama,
    write_sparse,
)
from tests.families import FAMILIES, Family
from tests.families import save as save_family

SHARED = Path(__file__).parents[4] / "shared" / "data" / "models"
# Attention by two implementations (sdpa and eager) differs by rounding only.
TOLERANCE = 1e-5


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    transformers.utils.logging.disable_progress_bar()
    yield


def _decoded(source: ModelSource, tokens: torch.Tensor) -> torch.Tensor:
    model = source.build_on("cpu")
    assert source.weights is not None
    put_weights(model, source.weights)
    with torch.no_grad():
        result: torch.Tensor = model(tokens).logits
        return result


def _reference(folder: Path, tokens: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        result: torch.Tensor = (
            transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()(tokens).logits
        )
        return result


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_folder_of_each_family_makes_the_same_model(family: Family, tmp_path: Path) -> None:
    folder = save_family(family, tmp_path / "tiny")
    source = resolve(str(folder))
    assert (source.name, source.kind, source.trained, source.path) == ("tiny", "decoder", True, folder)
    tokens = torch.arange(1, 13)[None]
    torch.testing.assert_close(_decoded(source, tokens), _reference(folder, tokens), atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize(
    "config",
    [
        transformers.Qwen3MoeConfig(
            **{**ENCODER, "num_key_value_heads": 2, "head_dim": 8},
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=16,
        ),
        transformers.MixtralConfig(**ENCODER, num_key_value_heads=2, num_local_experts=4),
        transformers.GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=128, n_positions=64),
    ],
    ids=["fused experts", "renamed experts", "gpt2"],
)
def test_checkpoints_in_another_layout_are_converted(config: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    tokens = torch.arange(1, 13)[None]
    got = _decoded(resolve(str(tmp_path)), tokens)
    torch.testing.assert_close(got, _reference(tmp_path, tokens), atol=TOLERANCE, rtol=0)


def test_the_text_decoder_of_a_multimodal_model(tmp_path: Path) -> None:
    text = {**ENCODER, "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 300}
    config = transformers.Gemma3Config(
        text_config=text, vision_config=dict(VISION), mm_tokens_per_image=4, image_token_index=299
    )
    whole = transformers.Gemma3ForConditionalGeneration(config).eval()
    whole.save_pretrained(tmp_path)
    assert resolve(str(tmp_path)).kind == "vision-language"
    source = resolve(str(tmp_path), task="text-generation")
    assert source.kind == "decoder"
    assert source.config["model_type"] == "gemma3_text"
    assert len(model_spec(source.config).layers) == 2
    tokens = torch.arange(1, 13)[None]
    with torch.no_grad():
        expected = whole(tokens).logits
    torch.testing.assert_close(_decoded(source, tokens), expected, atol=TOLERANCE, rtol=0)


def _encoder(name: str) -> Any:
    return getattr(transformers, name)(transformers.BertConfig(**ENCODER))


def _vision(name: str) -> Any:
    return getattr(transformers, name)(transformers.ViTConfig(**VISION))


MODULES = {
    "masked language model": (lambda: _encoder("BertForMaskedLM"), None, "fill-mask", (1, 64, 128)),
    "the same by task": (lambda: _encoder("BertForMaskedLM"), "fill-mask", "fill-mask", (1, 64, 128)),
    "classifier": (lambda: _encoder("BertForSequenceClassification"), None, "text-classification", (1, 2)),
    "image classifier": (lambda: _vision("ViTForImageClassification"), None, "image-classification", (1, 2)),
    "image classifier by task": (
        lambda: _vision("ViTForImageClassification"),
        "image-classification",
        "image-classification",
        (1, 2),
    ),
}


@pytest.mark.parametrize("case", MODULES.values(), ids=MODULES)
def test_models_that_are_not_decoders(case: Any, tmp_path: Path) -> None:
    make, asked, task, shape = case
    torch.manual_seed(0)
    model = make().eval()
    model.save_pretrained(tmp_path)
    source = resolve(str(tmp_path), task=asked)
    assert (source.kind, source.task) == ("module", task)
    assert source.factory is not None
    module, inputs = source.factory()
    with torch.no_grad():
        got = module(*inputs)
        expected = model(**dict(zip(source.input_names, inputs, strict=True))).logits
    assert tuple(got.shape) == shape
    torch.testing.assert_close(got, expected, atol=TOLERANCE, rtol=0)


def test_features_of_a_model_trained_with_another_head_have_no_untrained_pooler(tmp_path: Path) -> None:
    model = _encoder("BertForMaskedLM").eval()
    model.save_pretrained(tmp_path)
    source = resolve(str(tmp_path), task="feature-extraction")
    assert source.factory is not None
    module, inputs = source.factory()
    with torch.no_grad():
        got = module(*inputs)
        expected = model.bert(*inputs).last_hidden_state
    torch.testing.assert_close(got, expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("bare", ["folder", "file", "file of another name"])
def test_a_bare_config_with_random_weights(bare: str, tmp_path: Path) -> None:
    folder = write_config(tmp_path / "arch")
    if bare == "file of another name":
        (folder / "config.json").rename(folder / "wide.json")
    model = {"folder": folder, "file": folder / "config.json", "file of another name": folder / "wide.json"}[bare]
    source = resolve(str(model), random_weights=True, seed=3)
    assert source.trained is False
    assert source.name == ("wide" if bare == "file of another name" else "arch")
    tokens = torch.arange(1, 9)[None]
    again = _decoded(resolve(str(model), random_weights=True, seed=3), tokens)
    assert torch.equal(_decoded(source, tokens), again)
    assert not torch.equal(_decoded(resolve(str(model), random_weights=True, seed=4), tokens), again)


def test_random_weights_of_a_module_are_deterministic(tmp_path: Path) -> None:
    transformers.ViTConfig(**VISION, architectures=["ViTForImageClassification"]).save_pretrained(tmp_path)
    factories = [resolve(str(tmp_path), random_weights=True).factory for _ in range(2)]
    outputs = []
    for factory in factories:
        assert factory is not None
        module, inputs = factory()
        with torch.no_grad():
            outputs.append(module(*inputs))
    assert torch.equal(*outputs)


FACTORY = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)
        self.example_inputs = (torch.ones(1, 4),)
    def forward(self, x):
        return self.linear(x)
def make():
    return Net(), (torch.zeros(1, 4),)
def one_tensor():
    return Net(), torch.zeros(1, 4)
class Nested:
    make = staticmethod(make)
instance = Net()
"""


@pytest.mark.long
@pytest.mark.parametrize("name", ["make", "one_tensor", "Net", "instance", "Nested.make"])
def test_a_factory_in_the_current_directory(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stem = f"factory_{name.replace('.', '_').lower()}"
    (tmp_path / f"{stem}.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    source = resolve(f"{stem}:{name}")
    assert (source.kind, source.weights) == ("module", None)
    assert source.files == (tmp_path / f"{stem}.py",)
    assert source.factory is not None
    module, inputs = source.factory()
    assert isinstance(module, nn.Module)
    assert tuple(module(*inputs).shape) == (1, 2)


@pytest.mark.long
def test_a_factorys_fingerprint_covers_its_weights_and_the_files_it_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "factory_parts.py").write_text("import torch\ndef layer(): return torch.nn.Linear(4, 2)\n")
    (tmp_path / "factory_whole.py").write_text(
        "import torch, factory_parts\ndef make():\n    return factory_parts.layer(), torch.zeros(1, 4)\n"
    )
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    one, other = resolve("factory_whole:make"), resolve("factory_whole:make")
    torch.manual_seed(0)
    again = resolve("factory_whole:make")
    assert {file.name for file in one.files} == {"factory_parts.py", "factory_whole.py"}
    assert one.config == again.config
    assert one.config != other.config  # other draws, other weights
    assert one.factory is not None
    first, second = one.factory()[0], one.factory()[0]
    assert first.weight is second.weight


class Scaled(torch.nn.Module):
    """A module whose buffer is not saved, with a tensor and a number beside it."""

    def __init__(self, mean: float, offset: float, eps: float) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([mean]), persistent=False)
        self.offset, self.eps = torch.tensor([offset]), eps


def test_a_modules_digest_covers_what_its_state_does_not_hold() -> None:
    made = [Scaled(*values) for values in ((1.0, 2.0, 3.0), (9.0, 2.0, 3.0), (1.0, 9.0, 3.0), (1.0, 2.0, 9.0))]
    assert len({state_digest(module, ()) for module in made}) == 4
    assert state_digest(made[0], ()) == state_digest(Scaled(1.0, 2.0, 3.0), ())


def test_the_facts_beside_the_weights_are_collected(tmp_path: Path) -> None:
    folder = write_llama(tmp_path / "my model")
    (folder / "generation_config.json").write_text('{"temperature": 0.5}')
    (folder / "tokenizer.json").write_text("{}")
    (folder / "README.md").write_text("---\nlicense: cc-by-4.0\ntags: [x]\n---\n# Card\n")
    source = resolve(str(folder))
    assert source.name == "my-model"
    # The ids that end a text are in its config.json alone.
    assert source.generation_config == {"temperature": 0.5, "eos_token_id": 2}
    assert source.tokenizer_files == (folder / "tokenizer.json",)
    assert source.licence == "cc-by-4.0"
    names = {file.name for file in source.files}
    assert names == {"config.json", "generation_config.json", "tokenizer.json", "model.safetensors"}
    with pytest.raises(FrozenInstanceError):
        source.name = "other"  # type: ignore[misc]


LICENCES = {
    "front matter": ("README.md", "---\nlicense: mit\n---\n", "mit"),
    "named other": ("README.md", "---\nlicense: other\nlicense_name: acme-1\n---\n", "acme-1"),
    "two": ("README.md", "---\nlicense: [mit, apache-2.0]\n---\n", "mit, apache-2.0"),
    "broken card": ("README.md", "---\nlicense: [mit\n---\n", None),
    "card without front matter": ("README.md", "# Model\n", None),
    "text": ("LICENSE", "                  Apache License\n   Version 2.0, January 2004\n", "apache-2.0"),
    "unknown text": ("LICENSE.txt", "Do as you like.\n", "see LICENSE.txt"),
}


@pytest.mark.parametrize("case", LICENCES.values(), ids=LICENCES)
def test_the_licence(case: tuple[str, str, str | None], tmp_path: Path) -> None:
    name, text, expected = case
    folder = write_llama(tmp_path)
    (folder / name).write_text(text)
    assert resolve(str(folder)).licence == expected


def test_an_adapted_model_may_lack_the_keys_and_values_it_shares(tmp_path: Path) -> None:
    shared = {f"model.layers.1.self_attn.{name}_proj.weight" for name in "kv"}
    tensors = {name: value for name, value in llama_tensors().items() if name not in shared}
    record = {"passes": ["shared_kv"], "mode": "reuse", "boundary": 1}
    source = resolve(str(write_llama(tmp_path, {"edgec": record}, tensors)))
    assert isinstance(source.weights, BoundWeights)
    assert source.weights.zeroed.keys() == shared and not source.weights.absent
    assert all(not source.weights.tensor(name).any() for name in shared)
    assert source.config["edgec"] == record


def test_building_on_meta_allocates_nothing_and_takes_an_attention(tmp_path: Path) -> None:
    model = resolve(str(write_llama(tmp_path))).build_on("meta", attn_implementation="sdpa", dtype=torch.bfloat16)
    parameter = next(model.parameters())
    assert (parameter.device.type, parameter.dtype) == ("meta", torch.bfloat16)
    assert model.config._attn_implementation == "sdpa"


def test_resolving_a_huge_model_allocates_nothing(tmp_path: Path) -> None:
    sizes = {"hidden_size": 8192, "intermediate_size": 32768, "vocab_size": 1_000_000, "num_attention_heads": 64}
    folder = write_config(tmp_path / "huge", {**sizes, "num_key_value_heads": 32})
    claimed = write_sparse(folder / "model.safetensors", llama_shapes(8192, 32768, 1_000_000))
    resolve(str(write_llama(tmp_path / "tiny")))  # whatever imports cost is paid here
    before = psutil.Process().memory_info().rss
    source = resolve(str(folder))
    assert source.weights is not None
    assert sum(entry.nbytes for entry in source.weights.names().values()) == claimed > 40 * 10**9
    grown = psutil.Process().memory_info().rss - before
    assert grown < claimed / 400


REMOTE_CODE = """
from transformers import LlamaConfig, LlamaForCausalLM
class HomeConfig(LlamaConfig):
    model_type = "homemade"
class HomeForCausalLM(LlamaForCausalLM):
    config_class = HomeConfig
"""


def test_code_that_comes_with_a_model_runs_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("sys.path", list(sys.path))
    names = {"AutoConfig": "home.HomeConfig", "AutoModelForCausalLM": "home.HomeForCausalLM"}
    changes = {"model_type": "homemade", "architectures": ["HomeForCausalLM"], "auto_map": names}
    folder = write_llama(tmp_path / "m", changes)
    (folder / "home.py").write_text(REMOTE_CODE)
    source = resolve(str(folder), trust_remote_code=True)
    assert type(source.build_on()).__name__ == "HomeForCausalLM"
    assert folder / "home.py" in source.files


def test_a_local_path_comes_before_a_hub_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_llama(tmp_path / "owner" / "name")
    monkeypatch.chdir(tmp_path)
    assert resolve("owner/name").path == tmp_path / "owner" / "name"


def test_the_effective_config_has_the_defaults_that_the_file_leaves_out(tmp_path: Path) -> None:
    source = resolve(str(write_llama(tmp_path)))
    assert "head_dim" not in LLAMA
    assert source.config["head_dim"] == 8
    assert model_spec(source.config).tied is True


@pytest.mark.shared_data
@pytest.mark.skipif(not SHARED.is_dir(), reason="needs models beside the checkout")
def test_stories260k() -> None:
    source = resolve(str(SHARED / "stories260K"))
    assert (source.name, source.kind, source.config["vocab_size"]) == ("stories260K", "decoder", 512)
    tokens = torch.tensor([[1, 403, 407, 261]])
    got, expected = _decoded(source, tokens), _reference(SHARED / "stories260K", tokens)
    torch.testing.assert_close(got, expected, atol=1e-4, rtol=0)  # logits up to about 10
