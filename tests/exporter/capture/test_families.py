from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from edgec.exporter.capture.decoder import build_skeleton, capture_decoder
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.ir.attention import OPERATOR
from edgec.ir.attributes import attribute
from edgec.ir.program import Program, held_bytes
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import clone, nodes_of, run_pass
from tests.families import COMMON, FAMILIES, Family, empty_model, save, stored

# The graph does eager's float32 arithmetic operator by operator; only kernel choice may differ in the last places.
TOLERANCE = 1e-5
LONGEST = 64
# The first takes longest; the second's windows are those of gemma2 as well.
SLOW = ("gemma3n_text", "mistral")
TOKENS = 30


@dataclass(frozen=True)
class Captured:
    family: Family
    folder: Path
    config: Any
    reference: Any
    program: Program


def _captured(family: Family, folder: Path, dtype: torch.dtype) -> Captured:
    from transformers import AutoConfig, AutoModelForCausalLM

    save(family, folder, dtype)
    config = AutoConfig.from_pretrained(folder)
    skeleton = build_skeleton(empty_model(config))
    program = capture_decoder(skeleton, model_spec(config.to_dict()), stored(folder), LONGEST)
    reference = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    return Captured(family, folder, config, reference.eval(), run_pass(program, RemoveNoops()))


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Models this small lose time to threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(
    scope="module",
    params=[pytest.param(f, id=f.name, marks=[pytest.mark.slow] if f.name in SLOW else []) for f in FAMILIES],
)
def captured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Captured:
    family: Family = request.param
    return _captured(family, tmp_path_factory.mktemp(family.name), torch.float32)


def _tokens(count: int = TOKENS) -> Tensor:
    return torch.randint(3, 128, (1, count), generator=torch.Generator().manual_seed(1))


@pytest.mark.long
@pytest.mark.sweep(4)
@torch.no_grad()
def test_logits_equal_eager_beyond_the_window(captured: Captured) -> None:
    tokens = _tokens()
    expected = captured.reference(tokens).logits
    assert expected.std() > 0.1, "a model whose logits are all alike proves nothing"
    torch.testing.assert_close(captured.program.graph(tokens, torch.arange(TOKENS)), expected, atol=TOLERANCE, rtol=0)


@pytest.mark.long
@torch.no_grad()
def test_greedy_generation_is_transformers_own(captured: Captured) -> None:
    prompt = _tokens(5)
    expected = captured.reference.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=12, do_sample=False, eos_token_id=None
    )
    tokens = prompt
    for _ in range(12):
        logits = captured.program.graph(tokens, torch.arange(tokens.shape[1]))
        tokens = torch.cat([tokens, logits[:, -1].argmax(-1, keepdim=True)], 1)
    assert tokens.tolist() == expected.tolist()


@pytest.mark.sweep(4)
@pytest.mark.long
def test_one_attention_node_a_layer_and_it_says_what_the_config_says(captured: Captured) -> None:
    family, nodes = captured.family, nodes_of(captured.program.graph, OPERATOR)
    spec = model_spec(captured.config.to_dict())
    assert [node.args[5] for node in nodes] == list(range(len(family.windows)))
    assert tuple(node.args[8] or None for node in nodes) == family.windows == tuple(x.window for x in spec.layers)
    keys: list[Any] = [node.args[1] for node in nodes]
    shapes = [key.meta["val"].shape for key in keys]
    assert tuple(s[1] for s in shapes) == family.kv_heads == tuple(x.kv_heads for x in spec.layers)
    assert tuple(s[3] for s in shapes) == family.head_dims == tuple(x.head_dim for x in spec.layers)
    assert all(node.args[7] is True and node.args[4] is None for node in nodes), "causal by positions, without a mask"


@pytest.mark.long
def test_layers_share_keys_and_values_exactly_where_the_spec_says(captured: Captured) -> None:
    nodes = nodes_of(captured.program.graph, OPERATOR)
    first: dict[Any, int] = {}
    donors = []
    for layer, node in enumerate(nodes):
        donor = first.setdefault(node.args[1:3], layer)
        donors.append(None if donor == layer else donor)
    assert tuple(donors) == captured.family.donors
    assert tuple(donors) == tuple(layer.kv_donor for layer in model_spec(captured.config.to_dict()).layers)


@torch.no_grad()
def test_the_window_in_the_node_matters(captured: Captured) -> None:
    windowed = [layer for layer, window in enumerate(captured.family.windows) if window]
    if not windowed:
        pytest.skip("this family has no sliding window")
    widened = clone(captured.program.graph)
    for layer in windowed:
        nodes_of(widened, OPERATOR)[layer].update_arg(8, 0)
    widened.recompile()
    tokens, positions = _tokens(), torch.arange(TOKENS)
    difference = (widened(tokens, positions) - captured.program.graph(tokens, positions)).abs().amax(-1)[0]
    assert difference[:8].max() <= TOLERANCE, "within the window nothing changes"
    assert difference[8:].max() > 1e-3


def test_soft_capped_scores_are_an_argument_of_the_operator(captured: Captured) -> None:
    capped = float(getattr(captured.config, "attn_logit_softcapping", None) or 0.0)
    assert [node.args[9] for node in nodes_of(captured.program.graph, OPERATOR)] == [capped] * len(
        captured.family.windows
    )


@pytest.mark.long
@torch.no_grad()
@pytest.mark.parametrize("name", ["llama", "gemma3_text"])
def test_bfloat16_weights_stay_bfloat16_and_are_cast_in_the_graph(name: str, tmp_path: Path) -> None:
    family = next(family for family in FAMILIES if family.name == name)
    capture = _captured(family, tmp_path, torch.bfloat16)
    weights = [node for node in capture.program.graph.graph.nodes if node.op == "get_attr"]
    stored_as = {str(n.target): attribute(capture.program.graph, str(n.target)).dtype for n in weights}
    assert {dtype for key, dtype in stored_as.items() if "proj" in key or "embed_tokens.weight" in key} == {
        torch.bfloat16
    }
    tokens = _tokens()
    expected = capture.reference(tokens).logits
    torch.testing.assert_close(capture.program.graph(tokens, torch.arange(TOKENS)), expected, atol=TOLERANCE, rtol=0)


@pytest.mark.long
def test_tied_matrices_are_one_tensor(tmp_path: Path) -> None:
    capture = _captured(FAMILIES[0], tmp_path, torch.float32)
    embedding: Any = nodes_of(capture.program.graph, torch.ops.aten.embedding.default)[0].args[0]
    linear: Any = nodes_of(capture.program.graph, torch.ops.aten.linear.default)[-1].args[1]
    first, second = (attribute(capture.program.graph, node.target) for node in (embedding, linear))
    assert first is second
    assert held_bytes(capture.program.graph) < (tmp_path / "model.safetensors").stat().st_size + 2**14


_CAPTURE_28_LAYERS = """
import resource, torch
from transformers import AutoConfig
from edgec.exporter.capture.decoder import build_skeleton, capture_decoder
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.ir.program import held_bytes
from tests.families import empty_model
config = AutoConfig.for_model("qwen3", vocab_size=151936, hidden_size=1024, intermediate_size=3072,
    num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8, head_dim=128,
    max_position_embeddings=40960, tie_word_embeddings=True)
empty_model(config)  # imports
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
skeleton = build_skeleton(empty_model(config))
shapes = skeleton.shapes()
class Lazy:
    def tensor(self, name):
        return torch.zeros(()).expand(shapes[name])
program = capture_decoder(skeleton, model_spec(config.to_dict()), Lazy(), 256)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024, held_bytes(program.graph))
"""


@pytest.mark.parametrize("raw", [True, False])
def test_layers_of_their_own_widths_are_read_from_a_hub_config_too(raw: bool) -> None:
    family = next(family for family in FAMILIES if family.name == "gemma4_text")
    config = {**COMMON, **family.options} if raw else family.config().to_dict()
    layers = model_spec(config).layers
    assert tuple(layer.head_dim for layer in layers) == family.head_dims
    assert tuple(layer.kv_heads for layer in layers) == family.kv_heads


@pytest.mark.slow
def test_capturing_600_million_parameters_allocates_no_weights() -> None:
    """Peak memory grows by the tracer's needs only; the float32 weights would be 2.4 GB."""
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", _CAPTURE_28_LAYERS], cwd=root, capture_output=True, text=True, check=True
    )
    grown, weights = map(int, done.stdout.split()[-2:])
    assert weights > 2.3e9
    assert grown < 0.6e9
