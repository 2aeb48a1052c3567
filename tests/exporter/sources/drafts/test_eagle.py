"""EAGLE-3's arithmetic written out, from its repository's model/cnets.py, against the captured method."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from edgec.errors import InputError
from edgec.exporter.capture import attention
from edgec.exporter.capture.decoder import build_skeleton, capture_decoder
from edgec.exporter.capture.predictor import capture_predictor
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.exporter.sources.drafts.eagle import EaglePredictor, open_eagle
from edgec.exporter.sources.drafts.kinds import is_eagle3
from edgec.exporter.sources.resolve import resolve
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import Pass, run_passes
from edgec.passes.draft.fused_hidden import FusedHidden, FusingMatrix
from edgec.passes.draft.hidden_output import HiddenOutput
from edgec.passes.kv.kv_cache import KvCache
from edgec.passes.prefill.last_logits import LastLogits
from tests.exporter.sources.drafts.eagle_folders import HEAD, HEADS, KV_HEADS, WIDTH, eagle_tensors, write_eagle
from tests.passes.decoders import StateDict, tiny_model

VOCAB, REDUCED, LENGTH, CONTEXT = 96, 40, 20, 64
LAYERS = 6
TAPS = (2, 3, 3)
TOKENS = torch.randint(3, VOCAB, (1, LENGTH + 1), generator=torch.Generator().manual_seed(2))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    tiny_model("llama", num_hidden_layers=LAYERS).save_pretrained(folder)
    return folder


def opened(base: Path, folder: Path) -> EaglePredictor:
    source = resolve(str(base))
    return open_eagle(folder, source, model_spec(source.config))


def norm(value: Tensor, weight: Tensor) -> Tensor:
    return value * torch.rsqrt(value.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def rotated(value: Tensor) -> Tensor:
    """Heads [1, heads, S, HEAD] turned by base 10,000."""
    angles = torch.outer(torch.arange(value.shape[2]).float(), 10000.0 ** (-torch.arange(0, HEAD, 2) / HEAD))
    cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
    half = torch.cat([-value[..., HEAD // 2 :], value[..., : HEAD // 2]], -1)
    return value * cos + half * sin


def written_out(own: dict[str, Tensor], embedded: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """The logits of the reduced vocabulary, and the hidden states [B, S, WIDTH] that the next guess goes on from."""
    layer = {name.removeprefix("midlayer."): value for name, value in own.items()}
    texts, length, _ = hidden.shape
    both = [norm(embedded, layer["input_layernorm.weight"]), norm(hidden, layer["hidden_norm.weight"])]
    read = torch.cat(both, -1)
    query, key, kept = (
        (read @ layer[f"self_attn.{name}_proj.weight"].T).view(texts, length, heads, HEAD).transpose(1, 2)
        for name, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS))
    )
    key, kept = (each.repeat_interleave(HEADS // KV_HEADS, 1) for each in (rotated(key), kept))
    scores = rotated(query) @ key.transpose(2, 3) / math.sqrt(HEAD)
    scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -torch.inf)
    mixed = (scores.softmax(-1) @ kept).transpose(1, 2).reshape(texts, length, HEADS * HEAD)
    value = hidden + mixed @ layer["self_attn.o_proj.weight"].T
    read = norm(value, layer["post_attention_layernorm.weight"])
    up = functional.silu(read @ layer["mlp.gate_proj.weight"].T) * (read @ layer["mlp.up_proj.weight"].T)
    value = value + up @ layer["mlp.down_proj.weight"].T
    return norm(value, own["norm.weight"]) @ own["lm_head.weight"].T, value


@pytest.mark.long
def test_logits_and_hidden_states_are_those_of_the_arithmetic_written_out(base: Path, tmp_path: Path) -> None:
    own = eagle_tensors(VOCAB, REDUCED)
    predictor = opened(base, write_eagle(tmp_path, own, VOCAB))
    assert predictor.taps == TAPS and predictor.layer == LAYERS
    attention.register()
    skeleton = build_skeleton(lambda: predictor.build_on(None, "edgec"))
    program = capture_predictor(skeleton, predictor.spec, predictor.weights, CONTEXT)
    passes: list[Pass] = [RemoveNoops(), LastLogits(8), HiddenOutput(every=False), KvCache(CONTEXT, 32, rings=False)]
    program = run_passes(program, passes)
    hidden = torch.randn(1, LENGTH, WIDTH, generator=torch.Generator().manual_seed(1))
    rows = torch.tensor([3, 11, LENGTH - 1])
    with torch.no_grad():
        logits, given = program.graph(TOKENS[:, 1:], torch.arange(LENGTH), hidden, rows)
        embedded = tiny_model("llama", num_hidden_layers=LAYERS).model.embed_tokens(TOKENS[:, 1:])
        wanted, value = written_out(own, embedded, hidden)
    # Logits of order 5; float32 sums in another order.
    torch.testing.assert_close(given, value[:, rows], atol=1e-4, rtol=1e-4)
    known = own["d2t"] + torch.arange(REDUCED)
    torch.testing.assert_close(logits[..., known], wanted[:, rows], atol=1e-4, rtol=1e-4)
    assert (logits[..., ~own["t2d"]] == -1e4).all() and int(own["t2d"].sum()) == REDUCED
    with torch.no_grad():
        swapped, _ = written_out(own, hidden, embedded)
        late, _ = program.graph(TOKENS[:, :-1], torch.arange(LENGTH), hidden, rows)
        rolled, _ = program.graph(TOKENS[:, 1:], torch.arange(LENGTH), hidden.roll(1, 1), rows)
    assert (swapped[:, rows] - wanted[:, rows]).abs().max() > 0.5
    assert min(float((each - logits)[..., known].abs().max()) for each in (late, rolled)) > 0.5


@pytest.mark.long
def test_the_model_gives_the_hidden_states_before_three_layers_fused(base: Path, tmp_path: Path) -> None:
    own = eagle_tensors(VOCAB, REDUCED)
    predictor = opened(base, write_eagle(tmp_path, own, VOCAB))
    assert predictor.matrix is not None
    model = tiny_model("llama", num_hidden_layers=LAYERS)
    source = resolve(str(base))
    attention.register()
    skeleton = build_skeleton(lambda: source.build_on(None, attn_implementation="edgec"))
    program = capture_decoder(skeleton, model_spec(source.config), StateDict(model), CONTEXT)
    fused = FusedHidden(predictor.taps, FusingMatrix(predictor.matrix, "eagle3"))
    passes: list[Pass] = [RemoveNoops(), LastLogits(8), fused, KvCache(CONTEXT, 32)]
    inputs = TOKENS[:, :-1], torch.arange(LENGTH), torch.tensor([LENGTH - 1])
    with torch.no_grad():
        logits, hidden = run_passes(program, passes).graph(*inputs)
        output = model(TOKENS[:, :-1], output_hidden_states=True)
        joined = torch.cat([output.hidden_states[layer] for layer in TAPS], -1)
    # Hidden states of order 30 before the last norm; float32 sums in another order.
    torch.testing.assert_close(hidden, joined @ own["fc.weight"].T, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(logits, output.logits[:, -1:], atol=1e-4, rtol=1e-4)


def changed(**changes: Tensor | None) -> dict[str, Tensor]:
    """The tensors, some replaced or dropped; ``__`` stands for a dot."""
    named = {name.replace("__", "."): value for name, value in changes.items()}
    return {name: value for name, value in {**eagle_tensors(VOCAB, REDUCED), **named}.items() if value is not None}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"midlayer__mlp__up_proj__weight": None}, "E106"),
        ({"midlayer__self_attn__q_proj__weight": torch.zeros(HEADS * HEAD, WIDTH)}, "E106"),
        ({"midlayer__extra__weight": torch.zeros(2)}, "E106"),
        ({"fc__weight": None}, "E843"),
        ({"fc__weight": torch.zeros(WIDTH, 2 * WIDTH)}, "E843"),
        ({"d2t": None}, "E844"),
        ({"d2t": torch.zeros(REDUCED - 1, dtype=torch.int64)}, "E844"),
        ({"d2t": torch.zeros(REDUCED)}, "E844"),
        ({"d2t": torch.full((REDUCED,), VOCAB)}, "E843"),
        ({"d2t": -torch.arange(REDUCED)}, "E843"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(
    changes: dict[str, Tensor | None], code: str, base: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=code):
        opened(base, write_eagle(tmp_path, changed(**changes), VOCAB))


@pytest.mark.parametrize(
    ("option", "code"),
    [
        ({"hidden_size": 64}, "E843"),
        ({"model_type": "qwen3"}, "E846"),
        ({"num_attention_heads": "four"}, "E846"),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 3]}}, "E846"),
    ],
)
def test_configs_of_other_models_are_refused(option: dict[str, Any], code: str, base: Path, tmp_path: Path) -> None:
    folder = write_eagle(tmp_path, eagle_tensors(VOCAB, REDUCED), VOCAB, **option)
    assert is_eagle3(folder)
    with pytest.raises(InputError, match=code):
        opened(base, folder)


def test_a_pickle_is_refused_unless_it_is_allowed(base: Path, tmp_path: Path) -> None:
    folder = write_eagle(tmp_path, eagle_tensors(VOCAB, REDUCED), VOCAB)
    (folder / "model.safetensors").unlink()
    torch.save(eagle_tensors(VOCAB, REDUCED), folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="E107"):
        opened(base, folder)
    source = resolve(str(base))
    predictor = open_eagle(folder, source, model_spec(source.config), allow_pickle=True)
    assert predictor.reduced == REDUCED and predictor.files[0].name == "pytorch_model.bin"
