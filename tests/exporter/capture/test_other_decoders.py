"""Decoders that take their positions, tie their weights or split their heads in unusual ways, fed as on a phone."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch

from benchmarks.coverage_parts.tiny import tiny_config, tiny_model
from edgec.errors import InputError
from edgec.exporter.capture.decoder import build_skeleton, capture_decoder
from edgec.exporter.parity.execution import run_eager, run_program
from edgec.exporter.parity.metrics import difference
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.exporter.sources.hf_config import plain_config
from edgec.exporter.sources.model_build import build, tied_parameters
from edgec.ir.call_plan import call_plan
from edgec.ir.program import Program
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import Pass, run_passes
from edgec.passes.kv.kv_cache import KvCache
from edgec.passes.prefill.last_logits import LastLogits
from edgec.passes.prefill.prefill_skip import PrefillSkip

CONTEXT, CHUNK, ROWS = 64, 16, 4
PLAN = call_plan(40, CHUNK, ROWS)
# The same float32 arithmetic in another order.
TOLERANCE = 1e-5


# Families that begin after a padding index, or count the tokens of a call.
PLACES = ["roberta", "bart"]
# A router with a stored bias; clamped and biased experts, stored transposed.
EXPERTS = ["olmoe", "gpt_oss", "deepseek_v3"]
# Families that write their attention out instead of calling the interface; gpt_neo has a window in every other layer,
# openai-gpt multiplies by a triangle, xglm bounds its sums and asks for a mask of the scores' shape.
WRITTEN_OUT = ["gpt_neo", "falcon", "bloom", "openai-gpt", "xglm"]
# Chunks of attention, rotations of complex numbers; the average of RWKV; a bias of each key, which values decide.
OTHERS = ["llama4_text", "rwkv", "doge", "deepseek_v32", "zaya"]
# What these show is shown above, but by another family: linear biases, rotations, products over all heads, masks alone.
SLOW = [
    *("mpt", "gpt_neox_japanese", "bigbird_pegasus", "deepseek_v2", "kimi_linear", "bailing_hybrid", "nemotron_h"),
    *("gptj", "codegen", "phimoe", "camembert", "mvp", "trocr", "zamba2", "longcat_flash"),
    *("glm_moe_dsa", "minimax_m3_vl_text", "qwen4_exp_text"),
]
# Layers that no cache of keys and values serves, and what their refusals say.
REFUSED = {
    "cpmant": "prompt tokens before the text",
    "prophetnet": "streams of coming tokens",
    "reformer": "cuts the text into chunks",
    "inkling2_text": "gives its attention sinks",
    "dbrx": "in a loop that edgec cannot replace",
}


class Stored:
    """A model's weights as a checkpoint holds them: a tied weight under its owner's name only."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.state = {name: v for name, v in model.state_dict().items() if name not in tied_parameters(model)}

    def tensor(self, name: str) -> torch.Tensor:
        result: torch.Tensor = self.state[name]
        return result


def prepared(kind: str) -> tuple[torch.nn.Module, Program]:
    from transformers import AutoModelForCausalLM

    config = tiny_config(kind)
    model = tiny_model(config)
    # Building sets the config's attention, which the reference model reads when it runs.
    own = deepcopy(config)
    skeleton = build_skeleton(lambda: build(AutoModelForCausalLM, own, device=None, attn_implementation="edgec"))
    program = capture_decoder(skeleton, model_spec(plain_config(config)), Stored(model), CONTEXT)
    passes: list[Pass] = [RemoveNoops(), LastLogits(ROWS), KvCache(CONTEXT, CHUNK, "float32"), PrefillSkip()]
    return model, run_passes(program, passes, in_place=True)


@pytest.mark.sweep(5)
@pytest.mark.long
@pytest.mark.parametrize(
    "kind",
    [
        *(*PLACES, "gpt_neox", *EXPERTS, *WRITTEN_OUT, *OTHERS),
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in SLOW),
    ],
)
def test_chunks_and_single_tokens_give_eager_logits(kind: str) -> None:
    model, program = prepared(kind)
    tokens = torch.randint(5, 200, (40,), generator=torch.Generator().manual_seed(1)).tolist()
    wanted = run_eager(model, tokens, PLAN)
    assert wanted.std() > 0.1, "a model whose logits are all alike proves nothing"
    assert difference(wanted, run_program(program, tokens, PLAN), 0.0).max_relative < TOLERANCE


@pytest.mark.parametrize(
    "kind", [k if k == "inkling2_text" else pytest.param(k, marks=pytest.mark.slow) for k in REFUSED]
)
def test_what_no_cache_serves_is_refused_by_its_reason(kind: str) -> None:
    with pytest.raises(InputError, match=REFUSED[kind]) as refused:
        prepared(kind)
    assert refused.value.code == "E109"
