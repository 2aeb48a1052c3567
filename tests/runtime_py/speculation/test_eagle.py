"""An EAGLE-3 predictor guesses what its arithmetic says without a cache, and leaves the text as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from edgec.exporter.capture import attention
from edgec.exporter.capture.decoder import build_skeleton, capture_decoder
from edgec.exporter.capture.predictor import capture_predictor
from edgec.exporter.sources.decoder_spec import model_spec
from edgec.exporter.sources.drafts.eagle import open_eagle
from edgec.exporter.sources.resolve import resolve
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import Pass, run_passes
from edgec.passes.draft.fused_hidden import FusedHidden, FusingMatrix
from edgec.passes.draft.hidden_output import HiddenOutput
from edgec.passes.kv.kv_cache import KvCache
from edgec.passes.prefill.last_logits import LastLogits
from edgec.runtime_py.generate import stream_tokens
from edgec.runtime_py.sampling import Sampler, Sampling
from edgec.runtime_py.speculation.predictor import PredictorDrafts
from tests.exporter.sources.drafts.eagle_folders import eagle_tensors, write_eagle
from tests.exporter.sources.drafts.test_eagle import LAYERS, REDUCED, TAPS, VOCAB, written_out
from tests.passes.decoders import CONTEXT, StateDict, tiny_model
from tests.runtime_py.speculation.graph_stepper import GraphExecutor, GraphStepper
from tests.runtime_py.speculation.simulated import Always

CHUNK, ROWS = 12, 8
OWN = eagle_tensors(VOCAB, REDUCED)
PROMPT = torch.randint(3, VOCAB, (30,), generator=torch.Generator().manual_seed(5)).tolist()


def guesses(history: list[int], count: int) -> tuple[int, ...]:
    """The guesses after a text over all of it: by transformers' hidden states and EAGLE's arithmetic."""
    model = tiny_model("llama", num_hidden_layers=LAYERS)
    known = (OWN["d2t"] + torch.arange(REDUCED)).tolist()
    with torch.no_grad():
        output = model(torch.tensor([history[:-1]]), output_hidden_states=True, use_cache=False)
        hidden = torch.cat([output.hidden_states[layer] for layer in TAPS], -1) @ OWN["fc.weight"].T
        read, found = torch.tensor([history[1:]]), []
        for _ in range(count):
            logits, own = written_out(OWN, model.model.embed_tokens(read), hidden)
            found.append(known[int(logits[0, -1].argmax())])
            read = torch.cat([read, torch.tensor([found[-1:]])], 1)
            hidden = torch.cat([hidden, own[:, -1:]], 1)
    return tuple(found)


@pytest.mark.long
def test_guesses_are_those_of_the_whole_text_and_the_text_stays(tmp_path: Path) -> None:
    model = tiny_model("llama", num_hidden_layers=LAYERS)
    model.save_pretrained(tmp_path / "base")
    source = resolve(str(tmp_path / "base"))
    spec = model_spec(source.config)
    predictor = open_eagle(write_eagle(tmp_path / "eagle", OWN, VOCAB), source, spec)
    assert predictor.matrix is not None
    attention.register()
    fused = FusedHidden(predictor.taps, FusingMatrix(predictor.matrix, "eagle3"))
    passes: list[Pass] = [RemoveNoops(), LastLogits(ROWS), fused, KvCache(CONTEXT, CHUNK)]
    skeleton = build_skeleton(lambda: source.build_on(None, attn_implementation="edgec"))
    forward = run_passes(capture_decoder(skeleton, spec, StateDict(model), CONTEXT), passes)
    of, plain = (GraphStepper(forward, CONTEXT, CHUNK, ROWS) for _ in range(2))
    skeleton = build_skeleton(lambda: predictor.build_on(None, "edgec"))
    passes = [RemoveNoops(), LastLogits(ROWS), HiddenOutput(every=False), KvCache(CONTEXT, CHUNK, rings=False)]
    program = run_passes(capture_predictor(skeleton, predictor.spec, predictor.weights, CONTEXT), passes)
    drafter, history = PredictorDrafts(of, GraphExecutor(program), "eagle3"), list(PROMPT)
    of.prefill(history[:-1], 0)
    for token in (5, 9):
        draft = drafter.propose(history, 4)
        assert draft is not None and draft.tokens == guesses(history, 4)
        of.forward([history[-1], *draft.tokens[:2]], len(history) - 1, (0, 1, 2))
        history.append(token)
    one = Always([drafter], of, of.states)
    assert list(one.tokens(of, PROMPT, Sampling())) == list(stream_tokens(plain, PROMPT, Sampler(Sampling())))
    assert one.counts.drafted > 0
