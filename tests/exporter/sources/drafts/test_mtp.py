"""A wrong predictor gives the same text as a right one, so its logits are compared with other implementations'."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional
from transformers import AutoModelForCausalLM

from edgec.errors import InputError
from edgec.exporter.capture import attention
from edgec.exporter.capture.decoder import build_skeleton
from edgec.exporter.capture.predictor import capture_predictor
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.exporter.sources.drafts.mtp import open_predictor
from edgec.exporter.sources.drafts.predictor import Predictor, is_predictors
from edgec.exporter.sources.resolve import resolve
from edgec.exporter.sources.stored_parameters import stored_in
from edgec.ir.program import Program
from tests.exporter.sources.drafts.mtp_models import CONTEXT, FAMILIES, LAYERS, VOCAB, WIDTH, write_mtp
from tests.exporter.sources.packed.test_gptq import GPTQ
from tests.exporter.sources.packed_writers import gptq_parts, rounded, write_packed

LENGTH = 20
TOKENS = torch.randint(3, VOCAB, (1, LENGTH + 1), generator=torch.Generator().manual_seed(2))


def predictor_of(folder: Path) -> Predictor:
    source = resolve(str(folder), task="text-generation")
    return open_predictor(source, model_spec(source.config))


def captured(folder: Path) -> Program:
    attention.register()
    predictor = predictor_of(folder)
    skeleton = build_skeleton(lambda: predictor.build_on(None, "edgec"))
    return capture_predictor(skeleton, predictor.spec, predictor.weights, CONTEXT)


def hidden_of(model: Any) -> Tensor:
    """The hidden states [1, LENGTH, WIDTH] after the last norm, by transformers' own model."""
    with torch.no_grad():
        hidden: Tensor = model.model(TOKENS[:, :-1], use_cache=False).last_hidden_state
    return hidden


def logits_of(program: Program, tokens: Tensor, hidden: Tensor) -> Tensor:
    with torch.no_grad():
        (logits,) = (program.graph(tokens, torch.arange(LENGTH), hidden),)
    return logits if isinstance(logits, Tensor) else logits[0]


def norm(value: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    return value * torch.rsqrt(value.pow(2).mean(-1, keepdim=True) + eps) * (1 + weight)


def rotated(value: Tensor, width: int) -> Tensor:
    """The first ``width`` values of each head [1, heads, S, D] turned by base 10,000."""
    angles = torch.outer(torch.arange(value.shape[2]).float(), 10000.0 ** (-torch.arange(0, width, 2) / width))
    cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
    turned, rest = value[..., :width], value[..., width:]
    half = torch.cat([-turned[..., width // 2 :], turned[..., : width // 2]], -1)
    return torch.cat([turned * cos + half * sin, rest], -1)


def qwen_logits(state: dict[str, Tensor], hidden: Tensor) -> Tensor:
    """Qwen3.5's predictor written out: gated attention over full rotary pairs of a quarter of each head."""
    own = {name.removeprefix("mtp."): value for name, value in state.items() if name.startswith("mtp.")}
    layer = {name.removeprefix("layers.0."): value for name, value in own.items()}
    embedded = state["model.embed_tokens.weight"][TOKENS[:, 1:]]
    both = [norm(embedded, own["pre_fc_norm_embedding.weight"]), norm(hidden, own["pre_fc_norm_hidden.weight"])]
    value = torch.cat(both, -1) @ own["fc.weight"].T
    read = norm(value, layer["input_layernorm.weight"])
    query, gate = (read @ layer["self_attn.q_proj.weight"].T).view(1, LENGTH, 4, 32).chunk(2, -1)
    key, kept = ((read @ layer[f"self_attn.{one}_proj.weight"].T).view(1, LENGTH, 2, 16) for one in "kv")
    query, key = norm(query, layer["self_attn.q_norm.weight"]), norm(key, layer["self_attn.k_norm.weight"])
    query, key = (rotated(each.transpose(1, 2), 4) for each in (query, key))
    key, kept = (each.repeat_interleave(2, 1) for each in (key, kept.transpose(1, 2)))
    scores = query @ key.transpose(2, 3) / math.sqrt(16)
    scores = scores.masked_fill(torch.ones(LENGTH, LENGTH).triu(1).bool(), -torch.inf)
    mixed = (scores.softmax(-1) @ kept).transpose(1, 2).reshape(1, LENGTH, 64) * gate.reshape(1, LENGTH, 64).sigmoid()
    value = value + mixed @ layer["self_attn.o_proj.weight"].T
    read = norm(value, layer["post_attention_layernorm.weight"])
    up = functional.silu(read @ layer["mlp.gate_proj.weight"].T) * (read @ layer["mlp.up_proj.weight"].T)
    value = norm(value + up @ layer["mlp.down_proj.weight"].T, own["norm.weight"])
    return value @ state["lm_head.weight"].T


@pytest.mark.long
def test_qwen_logits_are_those_of_the_arithmetic_written_out(tmp_path: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(write_mtp(tmp_path, "qwen3_5_text")).eval()
    hidden, program = hidden_of(model), captured(tmp_path)
    wanted = qwen_logits(load_file(tmp_path / "model.safetensors"), hidden)
    # Logits of order 5; float32 sums in another order.
    torch.testing.assert_close(logits_of(program, TOKENS[:, 1:], hidden), wanted, atol=1e-4, rtol=1e-4)
    late = logits_of(program, TOKENS[:, :-1], hidden)
    other = logits_of(program, TOKENS[:, 1:], hidden.roll(1, 1))
    assert min((late - wanted).abs().max(), (other - wanted).abs().max()) > 0.5


@pytest.mark.slow
def test_the_text_part_of_a_checkpoint_with_vision_has_its_predictor(tmp_path: Path) -> None:
    """Qwen3.5 is published with an image encoder: the model's tensors are nested, those of the predictor are not."""
    plain = captured(write_mtp(tmp_path / "plain", "qwen3_5_text"))
    state = load_file(tmp_path / "plain" / "model.safetensors")
    nested = {re.sub(r"^model\.", "model.language_model.", name): value for name, value in state.items()}
    text = json.loads((tmp_path / "plain" / "config.json").read_text())
    whole = {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "text_config": text}
    (tmp_path / "config.json").write_text(json.dumps(whole))
    save_file(nested, tmp_path / "model.safetensors", {"format": "pt"})
    given = TOKENS[:, 1:], torch.randn(1, LENGTH, WIDTH, generator=torch.Generator().manual_seed(1))
    assert torch.equal(logits_of(captured(tmp_path), *given), logits_of(plain, *given))


@pytest.mark.long
@pytest.mark.parametrize("family", ["glm4_moe", "deepseek_v3"])
def test_logits_are_those_of_transformers_own_predictor(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers.modeling_layers import MtpModel

    model = AutoModelForCausalLM.from_pretrained(write_mtp(tmp_path, family)).eval()
    # transformers knows the number of the layer by the published sizes.
    monkeypatch.setattr(model, "_keys_to_ignore_on_load_unexpected", [rf"model\.layers\.{LAYERS}.*"])
    theirs, hidden, following = MtpModel.from_pretrained(model).eval(), hidden_of(model), TOKENS[:, 1:]
    with torch.no_grad():
        places = torch.arange(1, LENGTH + 1).unsqueeze(0)
        given = theirs.forward_layer(0, hidden, places, None, input_ids=following)
        wanted = theirs._project_to_logits(given)
    program = captured(tmp_path)
    got = logits_of(program, following, hidden)
    # Positions count from the hidden state's here and from the token's there: rotations see only their difference.
    torch.testing.assert_close(got, wanted, atol=1e-4, rtol=1e-4)
    late, rolled = logits_of(program, TOKENS[:, :-1], hidden), logits_of(program, following, hidden.roll(1, 1))
    swapped = logits_of(captured(_swapped(tmp_path, f"model.layers.{LAYERS}.eh_proj.weight")), following, hidden)
    # Each takes the logits thousands of tolerances away, so that the comparison above would catch it.
    assert min(float((each - wanted).abs().max()) for each in (swapped, late, rolled)) > 0.5


def _swapped(folder: Path, name: str) -> Path:
    """The folder with the halves of the joining matrix in the other order: its inputs are swapped."""
    halves = load_file(folder / "model.safetensors")[name].chunk(2, 1)
    return changed(folder, values={name: torch.cat(halves[::-1], 1).contiguous()})


@pytest.mark.parametrize("family", FAMILIES)
def test_the_predictor_is_the_layer_after_the_last(family: str, tmp_path: Path) -> None:
    predictor = predictor_of(write_mtp(tmp_path, family))
    assert predictor.layer == LAYERS == predictor.spec.layers[-1].index
    assert predictor.weights.names()["join.eh_proj.weight"].shape == (WIDTH, 2 * WIDTH)


def gptq_parts_of(name: str, weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    made = rounded(weight, 4, 32, True)
    return gptq_parts(made), made.values


def write_quantised(folder: Path) -> dict[str, Tensor]:
    """Qwen3 with a predictor in ``folder / "packed"``, in GPTQ, and in ``plain`` what it means as floats."""
    plain = write_mtp(folder / "plain", "qwen3")
    meant = write_packed(folder / "packed", {**GPTQ, "group_size": 32}, gptq_parts_of, plain)
    changed(plain, values=meant)
    return meant


@pytest.mark.long
def test_a_predictor_of_a_quantised_checkpoint_is_what_its_integers_mean(tmp_path: Path) -> None:
    meant = write_quantised(tmp_path)
    given = TOKENS[:, 1:], torch.randn(1, LENGTH, WIDTH, generator=torch.Generator().manual_seed(1))
    got, wanted = (logits_of(captured(tmp_path / name), *given) for name in ("packed", "plain"))
    torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-5)
    predictor = predictor_of(tmp_path / "packed")
    stored = stored_in(predictor.weights)
    assert stored is not None
    own = [name for name in stored.forms if is_predictors(name, predictor.name)]
    assert len(own) == 8 and "join.eh_proj.weight" in own
    for name in own:
        assert stored.forms[name].form == "GPTQ int4"
        grid = stored.integers(name)
        scaled = grid.integers[:].float().unflatten(1, (grid.scale.shape[1], -1)) * grid.scale[..., None]
        assert torch.equal(scaled.flatten(1), meant[stored.forms[name].name])


def changed(folder: Path, drop: str = "", values: dict[str, Tensor] | None = None) -> Path:
    state = {n: v for n, v in load_file(folder / "model.safetensors").items() if not drop or drop not in n}
    save_file({**state, **(values or {})}, folder / "model.safetensors", {"format": "pt"})
    return folder


def test_a_checkpoint_without_a_predictor_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="E846") as error:
        predictor_of(changed(write_mtp(tmp_path, "qwen3_5_text"), drop="mtp."))
    assert f"mtp.* or model.layers.{LAYERS}.*" in error.value.why


def test_a_predictor_with_a_part_missing_or_of_another_shape(tmp_path: Path) -> None:
    folder = write_mtp(tmp_path, "qwen3_5_text")
    with pytest.raises(InputError, match="E106") as error:
        predictor_of(changed(folder, values={"mtp.fc.weight": torch.zeros(WIDTH, WIDTH)}))
    assert "eh_proj" in error.value.why
    with pytest.raises(InputError, match="E106"):
        predictor_of(changed(folder, drop="mtp.layers.0.mlp.up"))


@pytest.mark.parametrize("option", [{"mtp_num_hidden_layers": 2}, {"mtp_use_dedicated_embeddings": True}])
def test_predictors_of_other_forms_are_refused(option: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="E846"):
        predictor_of(write_mtp(tmp_path, "qwen3_5_text", **option))
