from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

import edgec
from edgec.errors import ToolError
from edgec.runtime_py.decoding.forced_text import continuation_score
from edgec.runtime_py.evaluate.tasks import adapter, evaluate_tasks, generate_until
from edgec.runtime_py.model import Model
from tests.runtime_py.fake_stepper import FakeStepper, recurrent_states, sums
from tests.runtime_py.tiny_decoder import CONTEXT

CONTEXT_TEXT, REST = "Once upon a time", " there was a little girl"


@pytest.fixture(scope="module")
def model(tiny_bundle: Path) -> Model:
    return edgec.load(tiny_bundle)


def expected_score(folder: Path, context: list[int], rest: list[int]) -> float:
    tokens = torch.tensor([[*context, *rest]])
    with torch.no_grad():
        logits = AutoModelForCausalLM.from_pretrained(folder)(tokens).logits[0].log_softmax(-1)
    rows = range(len(context) - 1, len(context) + len(rest) - 1)
    return float(sum(logits[i, token] for i, token in zip(rows, rest, strict=True)))


class _TemplateLM:
    """The part of lm_eval.api.model.TemplateLM that hands requests on."""

    def loglikelihood(self: Any, requests: list[Any]) -> list[tuple[float, bool]]:
        pairs = [request.args for request in requests]
        rows = []
        for context, rest in pairs:
            whole, start = self.tok_encode(context + rest), len(self.tok_encode(context))
            rows.append(((context, rest), whole[:start], whole[start:]))
        result: list[tuple[float, bool]] = self._loglikelihood_tokens(rows)
        return result


def _rolling(tokens: list[int], prefix: int, size: int, _: int) -> Iterator[tuple[list[int], list[int]]]:
    for i in range(0, len(tokens), size):
        yield [prefix if i == 0 else tokens[i - 1]], tokens[i : i + size]


@pytest.fixture
def lm_eval(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in with lm-eval's names where the package is not installed."""
    if find_spec("lm_eval"):
        return
    contents: dict[str, dict[str, Any]] = {
        "lm_eval": {},
        "lm_eval.api": {},
        "lm_eval.api.model": {"TemplateLM": _TemplateLM},
        "lm_eval.utils": {"get_rolling_token_windows": _rolling, "make_disjoint_window": lambda pair: pair},
    }
    for name, members in contents.items():
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)


def request(*args: Any) -> SimpleNamespace:
    return SimpleNamespace(args=args)


def test_loglikelihood_equals_transformers(lm_eval: None, model: Model, tiny_model_dir: Path) -> None:
    [(score, greedy)] = adapter(model).loglikelihood([request(CONTEXT_TEXT, REST)])
    context = model.encode(CONTEXT_TEXT)
    rest = model.encode(CONTEXT_TEXT + REST)[len(context) :]
    assert score == pytest.approx(expected_score(tiny_model_dir, context, rest), abs=1e-4)
    assert greedy is False


def test_rolling_covers_every_token_once(lm_eval: None, model: Model) -> None:
    text = "a b " * 150
    [score] = adapter(model).loglikelihood_rolling([request(text)])
    ids = list(model.tokenizer(text, add_special_tokens=False)["input_ids"])
    assert len(ids) > CONTEXT
    parts = [ids[i : i + CONTEXT] for i in range(0, len(ids), CONTEXT)]
    leads = [1, *(part[-1] for part in parts[:-1])]
    assert score == pytest.approx(
        sum(continuation_score(model.session, [lead], part)[0] for lead, part in zip(leads, parts, strict=True)),
        abs=1e-3,
    )


def test_generate_until_stops_and_limits(lm_eval: None, model: Model) -> None:
    options = {"until": ["\0never"], "max_gen_toks": 12}
    [text] = adapter(model).generate_until([request(CONTEXT_TEXT, options)])
    assert text == model.generate(CONTEXT_TEXT, max_new_tokens=12).text
    stop = text[3:5]
    assert generate_until(model, CONTEXT_TEXT, {"until": stop, "max_gen_toks": 12}) == text[: text.index(stop)]


def test_a_long_prompt_is_cut_on_the_left(model: Model) -> None:
    assert generate_until(model, "word " * 300, {"max_gen_toks": 4})


def test_greedy_continuations_are_recognised_and_cached() -> None:
    stepper, context = FakeStepper(sums), [5, 6, 7]
    right = [sums(context), sums([*context, sums(context)])]
    assert continuation_score(stepper, context, right)[1] is True
    stepper.calls.clear()
    assert continuation_score(stepper, context, [9, 9])[1] is False
    assert stepper.calls[0][0] == 2, "the shared context is not computed again"


def test_a_second_answer_goes_on_only_where_the_cache_can_go_back_to() -> None:
    """What the cache holds reaches beyond where the second answer begins, further than a recurrence drops tokens."""
    fake, fresh = (FakeStepper(sums, states=recurrent_states(log=1)) for _ in range(2))
    context, answer = [5, 6, 7, 8], [9, 10, 11, 12]
    continuation_score(fake, context, answer)
    longer = [*answer, 13]
    assert continuation_score(fake, context, longer) == continuation_score(fresh, context, longer)


@pytest.mark.parametrize(("before", "count"), [(3, 4), (60, 4), (64, 1), (70, 10), (1, 64), (2, 80)])
def test_what_does_not_fit_is_cut_on_the_left(before: int, count: int) -> None:
    rng = np.random.default_rng(0)
    context, rest = rng.integers(3, 60, before).tolist(), rng.integers(3, 60, count).tolist()
    stepper = FakeStepper(sums)
    score, _ = continuation_score(stepper, context, rest)
    fed = [*context, *rest][-65:-1]
    scored = min(count, len(fed))
    lead = 20 - np.log(np.exp(20) + 63)
    targets = [*context, *rest][-scored:]
    hits = [sums(fed[: len(fed) - scored + i + 1]) == target for i, target in enumerate(targets)]
    assert score == pytest.approx(sum(lead if hit else lead - 20 for hit in hits), rel=1e-6)


@pytest.mark.parametrize("call", [adapter, lambda m: evaluate_tasks(m.bundle.path, ["hellaswag"])])
def test_without_the_package(monkeypatch: pytest.MonkeyPatch, model: Model, call: Callable[[Model], Any]) -> None:
    monkeypatch.setattr("edgec.runtime_py.evaluate.tasks.find_spec", lambda _: None)
    with pytest.raises(ToolError) as error:
        call(model)
    assert error.value.code == "E310" and "pip install" in error.value.fix
