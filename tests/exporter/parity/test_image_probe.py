"""The text on which a vision-language model with methods of fixed shapes is compared."""

from __future__ import annotations

import pytest

from edgec.bundle.entry_points import Limits
from edgec.exporter.parity.probe import Probe
from edgec.exporter.parity.vision_language import image_probe
from edgec.exporter.sources.multimodal.vision_language import VisionInput
from edgec.ir.call_plan import compared_positions

CHUNK, IMAGE = 64, 7
VISION = VisionInput("llava", (3, 24, 24), IMAGE)


@pytest.mark.parametrize("rows", [9, 64, 256, 576])
@pytest.mark.parametrize("words", [40, 512])
def test_what_follows_an_image_of_any_size_is_compared(rows: int, words: int) -> None:
    limits = Limits(context=2048, prefill_chunk=CHUNK, logit_rows=1)
    probe = image_probe(VISION, rows, Probe((8,) * words, (), "text"), limits, static=True)
    places = compared_positions(probe.plan)
    assert sum(place >= probe.after_rows for place in places) >= 8
    # Nothing is left out; a plan without room for a whole chunk ends with one from the beginning.
    ends = [call.start + call.size for call in probe.plan]
    assert all(call.start in (0, end) for call, end in zip(probe.plan[1:], ends, strict=False))
