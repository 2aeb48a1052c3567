"""Experts of few bits as a phone's processor reads them, emulated, against the same artifact laid out for this one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgec
from edgec.bundle.folder import open_bundle
from edgec.runtime_py.sessions.session import Session
from edgec.runtime_py.verify.emulated import EmulatedRunner
from tests.engine.test_kernels import CAN_EMULATE
from tests.families import Family, save

FAMILIES = (
    Family("olmoe", {"num_experts": 8, "num_experts_per_tok": 2}),
    Family("gpt_oss", {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8}),
)


@pytest.mark.slow
@pytest.mark.skipif(not CAN_EMULATE, reason="no cross compiler or qemu")
@pytest.mark.parametrize("recipe", ["4bit", "3bit", "balanced2"])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_phones_runner_computes_what_this_machine_does(family: Family, recipe: str, tmp_path: Path) -> None:
    folder = save(family, tmp_path / family.name)
    # Random weights: 4 bits flip most tokens. The lowering is gated all the same.
    budgets = {"kl_mean": 50.0, "top1_agreement": 0.0}
    options: dict[str, Any] = {"target": "android-cpu", "recipe": recipe, "context": 64, "budgets": budgets}
    bundle = edgec.export(folder, out=tmp_path / "x.edgec", **options)
    tokens, session = [(7 * i * i + 5) % 120 + 3 for i in range(20)], Session(bundle)
    wanted = [session.prefill(tokens[:16], 0), *(session.prefill(tokens[i : i + 1], i) for i in range(16, 20))]
    got = EmulatedRunner.of_bundle(open_bundle(bundle)).replay(tokens, 16)
    # Both round the same tokens to 8 bits; one that lies between two integers may become the other one.
    assert abs(got - np.stack(wanted)).max() < 0.05 * abs(np.stack(wanted)).max()
