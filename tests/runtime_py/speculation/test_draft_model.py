from __future__ import annotations

from collections.abc import Sequence

import pytest

from edgec.runtime_py.sampling import Sampling
from edgec.runtime_py.speculation.draft_limits import DraftLimits
from edgec.runtime_py.speculation.draft_model import DraftModel
from edgec.runtime_py.stepper import Logits
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
def test_an_interrupted_draft_is_made_again_as_if_nothing_had_happened(calls: int) -> None:
    stepper, fresh = Interruptible(sums), FakeStepper(sums)
    one, other = (DraftModel(each, DraftLimits.of(each.limits)) for each in (stepper, fresh))
    for drafter in (one, other):
        drafter.begin(PROMPT, Sampling())
        drafter.propose(PROMPT, 4)
    # The text went elsewhere than the draft, so that what was drafted must be written over.
    history = [*PROMPT, 1, 2]
    stepper.after = len(stepper.calls) + calls
    with pytest.raises(KeyboardInterrupt):
        one.propose(history, 4)
    assert one.propose(history, 4) == other.propose(history, 4)
