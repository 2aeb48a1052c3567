"""Which calls of a decoder in fixed point the vendor's emulation executes."""

from __future__ import annotations

from edgec.exporter.stages.calibrated import LARGE_BYTES, SINGLE_TOKENS, emulated_calls
from edgec.ir.call_plan import static_plan

PLAN = static_plan(256, 64)


def test_all_calls_of_a_small_artifact_are_emulated() -> None:
    assert emulated_calls(PLAN, LARGE_BYTES - 1) == PLAN


def test_of_a_large_one_the_chunks_and_the_tokens_after_them_are() -> None:
    calls = emulated_calls(PLAN, LARGE_BYTES)
    assert [call.size for call in calls] == [*(call.size for call in PLAN if call.size > 1), *[1] * SINGLE_TOKENS]
    assert [call.start for call in calls] == [call.start for call in PLAN[: len(calls)]]
