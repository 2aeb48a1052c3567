"""A predictor leaves the text as it is, whatever it guesses: what it guesses, and how often rightly, is tested here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from edgec.exporter.capture import attention
from edgec.exporter.capture.decoder import build_skeleton, capture_decoder
from edgec.exporter.capture.predictor import JoinedInputs, capture_predictor
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.exporter.sources.drafts.mtp import open_predictor
from edgec.exporter.sources.drafts.predictor import Predictor, is_predictors
from edgec.exporter.sources.model_build import put_weights
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.resolve import resolve
from edgec.ir.program import Program
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import Pass, run_passes
from edgec.passes.draft.hidden_output import HiddenOutput
from edgec.passes.kv.kv_cache import KvCache
from edgec.passes.prefill.last_logits import LastLogits
from edgec.runtime_py.decoding.sampling import Sampler, Sampling
from edgec.runtime_py.generation.generate import stream_tokens
from edgec.runtime_py.speculation.predictor import PredictorDrafts
from tests.exporter.sources.drafts.mtp_models import CONTEXT, VOCAB, write_mtp
from tests.passes.decoders import StateDict
from tests.runtime_py.speculation.graph_stepper import GraphExecutor, GraphStepper
from tests.runtime_py.speculation.simulated import Always

CHUNK, ROWS, LENGTH = 12, 8, 40
# The first prompts are kept from training.
KEPT = 4
PROMPTS = torch.randint(3, VOCAB, (300, 4), generator=torch.Generator().manual_seed(5))
SAMPLINGS = [Sampling(), Sampling(repetition_penalty=1.3), Sampling(temperature=0.9, top_p=0.9, seed=5)]


@dataclass(frozen=True)
class Made:
    """A model, its predictor, the same as a module with weights, and the program of the model with a cache."""

    model: Any
    predictor: Predictor
    one_layer: Any
    forward: Program

    def drafting(self) -> Program:
        """The predictor's program with a cache, over the weights that the module has now."""
        skeleton = build_skeleton(lambda: self.predictor.build_on(None, "edgec"))
        program = capture_predictor(skeleton, self.predictor.spec, StateDict(self.one_layer), CONTEXT)
        passes: list[Pass] = [
            RemoveNoops(),
            LastLogits(ROWS),
            HiddenOutput(every=False),
            KvCache(CONTEXT, CHUNK, rings=False),
        ]
        return run_passes(program, passes)

    def stepper(self, rows: int = ROWS) -> GraphStepper:
        return GraphStepper(self.forward, CONTEXT, CHUNK, rows)

    def drafts(self, of: GraphStepper) -> tuple[PredictorDrafts, GraphExecutor]:
        executor = GraphExecutor(self.drafting())
        return PredictorDrafts(of, executor, "mtp"), executor


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    attention.register()
    # Weights of this size make a model that repeats itself enough to be foreseen, and not always.
    source = resolve(str(write_mtp(tmp_path_factory.mktemp("mtp"), "qwen3", initializer_range=0.08)))
    spec = model_spec(source.config)
    predictor, model = open_predictor(source, spec), _with_weights(source)
    one_layer = predictor.build_on("cpu", "eager")
    put_weights(one_layer, predictor.weights)
    skeleton = build_skeleton(lambda: source.build_on(None, attn_implementation="edgec"))
    program = capture_decoder(skeleton, spec, StateDict(model), CONTEXT)
    forward = run_passes(program, [RemoveNoops(), LastLogits(ROWS), HiddenOutput(), KvCache(CONTEXT, CHUNK)])
    return Made(model, predictor, one_layer.eval(), forward)


def _with_weights(source: ModelSource) -> Any:
    model = source.build_on("cpu")
    assert source.weights is not None
    put_weights(model, source.weights)
    return model.eval()


def hidden_of(model: Any, tokens: Tensor) -> Tensor:
    hidden: Tensor = model.get_decoder()(tokens, use_cache=False).last_hidden_state
    return hidden


def written_out(made: Made, history: list[int], count: int) -> tuple[int, ...]:
    """The guesses after a text, by transformers' layers over the whole text, without a cache."""
    last = len(history) - 1
    with torch.no_grad():
        rows, ids, guesses = hidden_of(made.model, torch.tensor([history[:-1]])), history[1:], []
        read = torch.tensor([ids])
        seen: list[Tensor] = []
        hook = made.one_layer.get_output_embeddings().register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        for place in range(count):
            logits = JoinedInputs(made.one_layer)(read, torch.arange(last + place), rows)
            guesses.append(int(logits[0, -1].argmax()))
            read = torch.cat([read, torch.tensor([guesses[-1:]])], 1)
            rows = torch.cat([rows, seen[-1][:, -1:]], 1)
        hook.remove()
    return tuple(guesses)


@pytest.mark.long
def test_guesses_are_those_of_the_whole_text_without_a_cache(made: Made) -> None:
    """After a prompt of several calls, after wrong guesses, and after another text with the same beginning."""
    of = made.stepper()
    drafter, executor = made.drafts(of)
    for history in ([*PROMPTS.flatten()[:30].tolist()], [*PROMPTS.flatten()[:9].tolist(), 7, 8]):
        of.prefill(history[:-1], 0)
        drafter.begin(history, Sampling())
        for token in (5, 9, 11):
            draft = drafter.propose(history, 4)
            assert draft is not None and draft.tokens == written_out(made, history, 4)
            # The text goes on otherwise than guessed, in one call of three tokens of which the first stays.
            of.forward([history[-1], *draft.tokens[:2]], len(history) - 1, (0, 1, 2))
            history.append(token)
    # A text of 30 tokens takes three calls of at most 12 pairs; each later draft one for what is new.
    assert [call[0].shape[1] for call in executor.calls][:4] == [12, 12, 5, 1]


@pytest.mark.long
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_the_text_is_the_same_token_for_token(made: Made, sampling: Sampling) -> None:
    of, plain = made.stepper(), made.stepper()
    drafter, _ = made.drafts(of)
    one = Always([drafter], of, of.states)
    for prompt in PROMPTS[:2].tolist():
        wanted = list(stream_tokens(plain, prompt, Sampler(sampling)))
        assert list(one.tokens(of, prompt, sampling, cached=of.reusable(prompt))) == wanted
        assert one.counts.drafted > 0 and len(wanted) == CONTEXT - len(prompt) + 1


@pytest.mark.long
def test_without_the_hidden_states_of_a_text_it_is_silent(made: Made) -> None:
    of = made.stepper()
    drafter, executor = made.drafts(of)
    history = PROMPTS.flatten()[:20].tolist()
    of.prefill(history[:-1], 0)
    assert of.hidden is not None and drafter.propose([*history, 4], 2) is None
    assert drafter.propose([6, *history[1:]], 2) is None
    of.hidden.write(40, [1, 2], np.zeros((2, 32), np.float32))
    assert drafter.propose(history, 2) is None and not executor.calls
    of.prefill(history[:-1], 0)
    assert drafter.propose(history, 2) is not None


@pytest.mark.slow
def test_a_trained_predictor_is_right_where_a_shuffled_one_is_not(made: Made) -> None:
    """A predictor that was trained for seconds on what the model says, then with its joining matrix shuffled."""
    _train(made)
    trained = acceptance(made)
    matrix = made.one_layer.join.eh_proj.weight
    with torch.no_grad():
        matrix.copy_(matrix[:, torch.randperm(matrix.shape[1], generator=torch.Generator().manual_seed(1))])
    shuffled = acceptance(made)
    assert trained > 0.25 > 4 * shuffled


def _train(made: Made, steps: int = 80) -> None:
    """Teach the predictor's own tensors the token after the next one, in texts that the model wrote."""
    texts = made.model.generate(PROMPTS[KEPT:], max_new_tokens=LENGTH, min_new_tokens=LENGTH, do_sample=False)
    with torch.no_grad():
        hidden = hidden_of(made.model, texts)
    own = [value.requires_grad_() for name, value in made.one_layer.named_parameters() if is_predictors(name, "mtp")]
    optimizer, joined = torch.optim.Adam(own, lr=1e-2), JoinedInputs(made.one_layer)
    places, generator = torch.arange(texts.shape[1] - 2), torch.Generator().manual_seed(0)
    with torch.enable_grad():
        for _ in range(steps):
            some = torch.randperm(len(texts), generator=generator)[:16]
            logits = joined(texts[some, 1:-1], places, hidden[some, :-2])
            loss = functional.cross_entropy(logits.flatten(0, 1), texts[some, 2:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    made.one_layer.requires_grad_(False)


def acceptance(made: Made) -> float:
    """The share of drafted tokens, two at a time, that were right in texts that were not trained on."""
    of = made.stepper(rows=3)
    drafter, _ = made.drafts(of)
    one, right, drafted = Always([drafter], of, of.states), 0, 0
    for prompt in PROMPTS[:KEPT].tolist():
        text = list(one.tokens(of, prompt, Sampling(), LENGTH))
        assert len(text) >= LENGTH
        right, drafted = right + one.counts.accepted, drafted + one.counts.drafted
    return right / drafted
