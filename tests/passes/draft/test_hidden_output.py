from __future__ import annotations

import pytest
import torch

from edgec.errors import InputError
from edgec.ir.program import Dynamic
from edgec.passes.contract import run_pass
from edgec.passes.draft.hidden_output import HiddenOutput
from edgec.passes.fuse.fuse_rms_norm import FuseRmsNorm
from edgec.passes.kv.kv_cache import KvCache
from edgec.passes.prefill.prefill_skip import PrefillSkip
from tests.passes.decoders import CONTEXT, captured, tiny_model, tokens

LENGTH, ROWS, CHUNK = 24, [3, 9, 23], 32


@pytest.mark.parametrize("every", [True, False])
def test_the_second_output_is_what_the_lm_head_reads(every: bool) -> None:
    plain = captured("llama")
    program = run_pass(plain, HiddenOutput(every))
    for one in (FuseRmsNorm(), KvCache(CONTEXT, CHUNK), PrefillSkip()):
        program = run_pass(program, one)
    inputs = torch.tensor([tokens(LENGTH)]), torch.arange(LENGTH), torch.tensor(ROWS)
    with torch.no_grad():
        wanted = tiny_model("llama").model(inputs[0], use_cache=False).last_hidden_state
        logits, hidden = program.graph(*inputs)
        # float32 sums in another order, at values of order 3 and logits of order 10.
        torch.testing.assert_close(hidden, wanted if every else wanted[:, ROWS], atol=2e-5, rtol=1e-5)
        torch.testing.assert_close(logits, plain.graph(*inputs), atol=1e-4, rtol=1e-4)
    (_, given) = program.interface.outputs
    assert given.shape == (1, Dynamic("S", 1, CHUNK) if every else Dynamic("K", 1, 8), 32)


@pytest.mark.long
def test_a_graph_that_selects_no_rows_is_refused() -> None:
    from edgec.exporter.capture.decoder import build_skeleton, capture_decoder
    from edgec.exporter.sources.decoders.spec import model_spec
    from tests.passes.decoders import StateDict

    model = tiny_model("llama")
    skeleton = build_skeleton(lambda: type(model)(model.config))
    program = capture_decoder(skeleton, model_spec(model.config.to_dict()), StateDict(model), CONTEXT)
    with pytest.raises(InputError, match="E845"):
        run_pass(program, HiddenOutput())
