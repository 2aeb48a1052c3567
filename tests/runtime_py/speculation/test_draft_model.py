from __future__ import annotations

from collections.abc import Sequence

import pytest

from edgec.runtime_py.decoding.sampling import Sampling
from edgec.runtime_py.decoding.stepper import Logits
from edgec.runtime_py.speculation.draft import DraftLimits
from edgec.runtime_py.speculation.draft_model import DraftModel
from tests.runtime_py.fake_stepper import FakeStepper, sums

PROMPT = list(range(5, 17))


class Interruptible(FakeStepper):
    """Raises KeyboardInterrupt once, after a call has written its tokens: as Ctrl-C during a native call."""

    after: int | None = None

    def forward(self, tokens: Sequence[int], start: int, rows: Sequence[int]) -> Logits:
        logits = super().forward(tokens, start, rows)
        if self.after == len(self.calls):
            self.cache.begin(start, len(tokens))
            raise KeyboardInterrupt
        return logits


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_after_an_interrupted_draft_nothing_is_taken_for_fed_that_was_written_over(calls: int) -> None:
    stepper, fresh = Interruptible(sums), FakeStepper(sums)
    one, other = (DraftModel(each, DraftLimits.of(each.limits)) for each in (stepper, fresh))
    for drafter in (one, other):
        drafter.begin(PROMPT, Sampling())
        draft = drafter.propose(PROMPT, 4)
    assert draft is not None
    stepper.after = len(stepper.calls) + calls
    with pytest.raises(KeyboardInterrupt):
        one.propose([*PROMPT, 1, 2], 4)
    assert one.propose([*PROMPT, *draft.tokens], 4) == other.propose([*PROMPT, *draft.tokens], 4)
