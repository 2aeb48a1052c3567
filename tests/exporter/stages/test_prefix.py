"""A system prompt's state is shipped only where restoring it changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from edgec.bundle.entry_points import StateInfo
from edgec.bundle.prefix import SystemPrompt
from edgec.errors import BudgetError, InputError, ToolError
from edgec.exporter.parity.ladder import FLOAT_LOWERING
from edgec.exporter.resolve.system_prompt import check_prompt
from edgec.exporter.stages.prefix import PrefixFacts, write_prefix
from edgec.runtime_py.decoding.stepper import Logits
from tests.runtime_py.fake_arena import CONTEXT, FULL, WITH_RING, ArenaStepper, place

QUESTION = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]


def prompt(count: int = 20) -> SystemPrompt:
    return SystemPrompt("Be kind.", "chat", tuple(range(30, 30 + count)))


def written(folder: Path, of: SystemPrompt, states: Sequence[StateInfo] = FULL) -> PrefixFacts:
    write_prefix(folder, of, place(states), lambda: ArenaStepper(states), QUESTION, loose=False)
    return PrefixFacts.model_validate_json((folder / "prefix.json").read_text())


@pytest.mark.parametrize("states", [FULL, WITH_RING])
@pytest.mark.parametrize("count", [1, 8, 20, CONTEXT - 1])
def test_the_state_comes_with_two_passed_rungs(states: Sequence[StateInfo], count: int, tmp_path: Path) -> None:
    facts = written(tmp_path, prompt(count), states)
    same, at_once = facts.rungs
    assert same.gated and same.passed and same.max_abs == 0.0 and same.budget == {"max_abs": 0.0}
    assert at_once.gated and at_once.passed and at_once.budget == FLOAT_LOWERING
    assert same.positions == at_once.positions == min(8, CONTEXT - count)
    assert facts.info.tokens == count and facts.info.form == "chat"
    assert facts.info.fingerprint == place(states).origin.fingerprint(prompt(count).tokens)
    assert facts.info.bytes == (tmp_path / "state.safetensors").stat().st_size


class Forgetful(ArenaStepper):
    """Has memory outside its arena, as an artifact whose manifest does not list every state would."""

    hidden = 0

    def forward(self, tokens: Sequence[int], start: int, rows: Sequence[int]) -> Logits:
        self.hidden += sum(tokens)
        logits = super().forward(tokens, start, rows)
        return logits + self.hidden


def test_a_state_that_is_not_all_of_it_stops_the_export(tmp_path: Path) -> None:
    with pytest.raises(BudgetError) as stopped:
        write_prefix(tmp_path, prompt(), place(), Forgetful, QUESTION, loose=False)
    assert stopped.value.code == "E201" and "prefix restored" in stopped.value.what


def test_a_prompt_must_leave_room_for_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgec.exporter.resolve.system_prompt.choose_engine", lambda operators: "edgec")
    check_prompt(prompt(20), 21, 21)
    with pytest.raises(InputError, match="--context 21 or more"):
        check_prompt(prompt(20), 20, 64)
    with pytest.raises(InputError, match="shorten it to 19 tokens") as caught:
        check_prompt(prompt(20), 20, 20)
    assert caught.value.code == "E150"
    with pytest.raises(InputError, match="E150"):
        check_prompt(prompt(20), 20, 21)


def test_without_the_engine_the_export_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgec.exporter.resolve.system_prompt.choose_engine", lambda operators: "executorch")
    with pytest.raises(ToolError) as refused:
        check_prompt(prompt(20), 21, 21)
    assert (refused.value.code, refused.value.exit_code) == ("E330", 3)
