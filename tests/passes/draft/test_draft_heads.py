from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from edgec.errors import InputError
from edgec.ir.program import Program
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.compress.quantize import Quantize
from edgec.passes.contract import run_pass
from edgec.passes.draft.draft_heads import DraftHeads
from edgec.passes.draft.head_weights import HeadsFile
from edgec.passes.kv.kv_cache import KvCache
from edgec.passes.prefill.prefill_skip import PrefillSkip
from tests.passes.decoders import CONTEXT, captured, tiny_model, tokens

HEADS, WIDTH, VOCAB, LENGTH = 3, 32, 96, 24
ROWS = [3, 9, 23]


@pytest.fixture(scope="module")
def heads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("heads") / "heads.safetensors"
    weight = torch.randn(HEADS, WIDTH, WIDTH, generator=torch.Generator().manual_seed(2)) * 0.2
    save_file({"draft_heads": weight}, file)
    return file


def outputs(program: Program) -> tuple[torch.Tensor, ...]:
    with torch.no_grad():
        result: tuple[torch.Tensor, ...] = program.graph(
            torch.tensor([tokens(LENGTH)]), torch.arange(LENGTH), torch.tensor(ROWS)
        )
        return result


def expected(file: Path, family: str) -> torch.Tensor:
    """The heads' logits: hidden + silu(W hidden), through transformers' own lm_head."""
    from safetensors.torch import load_file

    model, weight = tiny_model(family), load_file(file)["draft_heads"]
    with torch.no_grad():
        hidden = model.model(torch.tensor([tokens(LENGTH)]), use_cache=False).last_hidden_state[:, ROWS]
        guesses = hidden.unsqueeze(2) + torch.nn.functional.silu(torch.einsum("bkh,nih->bkni", hidden, weight))
        result: torch.Tensor = model.lm_head(guesses)
        return result


@pytest.mark.long
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_logits_stay_and_the_heads_say_what_they_should(heads: Path, family: str) -> None:
    plain = captured(family)
    program = run_pass(plain, DraftHeads(HeadsFile(heads)))
    logits, drafts = outputs(program)
    # The same sums over more rows at once: float32 rounding at logits of order 10.
    torch.testing.assert_close(logits, plain.graph(*_inputs()), atol=2e-5, rtol=1e-5)
    torch.testing.assert_close(drafts, expected(heads, family), atol=1e-4, rtol=1e-4)
    assert drafts.shape == (1, len(ROWS), HEADS, VOCAB)
    assert [(o.name, len(o.shape)) for o in program.interface.outputs] == [("logits", 3), ("draft_logits", 4)]


def _inputs() -> tuple[torch.Tensor, ...]:
    return torch.tensor([tokens(LENGTH)]), torch.arange(LENGTH), torch.tensor(ROWS)


@pytest.mark.long
def test_soft_capped_logits_are_capped_in_both_outputs(heads: Path) -> None:
    options = {"query_pre_attn_scalar": 16, "final_logit_softcapping": 3.0}
    plain = captured("gemma2", **options)
    logits, drafts = outputs(run_pass(plain, DraftHeads(HeadsFile(heads))))
    torch.testing.assert_close(logits, plain.graph(*_inputs()), atol=2e-5, rtol=1e-5)
    assert drafts.abs().max() <= 3.0 < 3.0 * logits.abs().max()


@pytest.mark.long
def test_later_passes_take_the_heads_along(heads: Path) -> None:
    program = run_pass(captured("llama"), KvCache(CONTEXT, CONTEXT))
    program = run_pass(run_pass(program, PrefillSkip()), DraftHeads(HeadsFile(heads)))
    cached = outputs(program)
    torch.testing.assert_close(cached[1], expected(heads, "llama"), atol=1e-4, rtol=1e-4)
    scheme = WeightScheme(bits=8, group_size=0)
    quantized = run_pass(program, Quantize(default=scheme, lm_head=scheme, algorithm="rtn"))
    for got, wanted in zip(outputs(quantized), cached, strict=True):
        # 8-bit weights and activations: a few hundredths of logits of order 10.
        torch.testing.assert_close(got, wanted, atol=0.6, rtol=0.1)


@pytest.mark.parametrize(
    "content",
    [
        {"draft_heads": torch.zeros(2, 16, 16)},
        {"draft_heads": torch.zeros(WIDTH, WIDTH)},
        {"draft_heads": torch.zeros(0, WIDTH, WIDTH)},
        {"heads": torch.zeros(2, WIDTH, WIDTH)},
        None,
    ],
)
def test_files_that_do_not_fit_are_refused(content: dict[str, torch.Tensor] | None, tmp_path: Path) -> None:
    file = tmp_path / "heads.safetensors"
    if content:
        save_file(content, file)
    with pytest.raises(InputError, match="E197"):
        run_pass(captured("llama"), DraftHeads(HeadsFile(file)))


def test_a_broken_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "heads.safetensors"
    file.write_bytes(b"no safetensors at all")
    with pytest.raises(InputError, match="E197"):
        run_pass(captured("llama"), DraftHeads(HeadsFile(file)))
