"""The engine's C interface for adapters refuses what does not fit its model."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edgec.bundle.adapter_targets import targets_of
from edgec.bundle.folder import open_bundle
from edgec.errors import InputError
from edgec.runtime_py.engines.engine import EngineModel
from edgec.runtime_py.engines.engine_adapter import EngineAdapter

FLOATS = NDArray[np.float32]


@dataclass
class Change:
    key: str
    a: FLOATS = field(default_factory=lambda: np.ones((2, 32), np.float32))
    b: FLOATS = field(default_factory=lambda: np.ones((32, 2), np.float32))


@pytest.fixture
def model(four_bits: Path) -> EngineModel:
    return EngineModel(four_bits / "model.pte")


@pytest.fixture
def key(four_bits: Path) -> str:
    targets = targets_of(open_bundle(four_bits)).targets
    return next(target.key for target in targets if target.name == "model.layers.0.self_attn.q_proj")


def test_what_is_not_a_matrix_of_the_model_is_refused(model: EngineModel, key: str) -> None:
    wrong = {
        "no matrix": Change("ab" * 32),
        "has 32 x 32": Change(key, a=np.ones((2, 31), np.float32)),
        "33 x 32": Change(key, b=np.ones((33, 2), np.float32)),
        "a rank of 5000": Change(key, np.ones((5000, 32), np.float32), np.ones((32, 5000), np.float32)),
    }
    for why, change in wrong.items():
        with pytest.raises(InputError, match="E157") as caught:
            EngineAdapter(model, [change])
        assert why in caught.value.why
    with pytest.raises(InputError, match="E157") as caught:
        EngineAdapter(model, [Change(key), Change(key)])
    assert "twice" in caught.value.why


def test_an_adapter_of_another_model_is_refused(four_bits: Path, model: EngineModel, key: str) -> None:
    other = EngineModel(four_bits / "model.pte")
    adapter = EngineAdapter(other, [Change(key)])
    with pytest.raises(InputError, match="E157") as caught:
        model.session().use_adapter(adapter.handle)
    assert "another model" in caught.value.why


def test_sessions_keep_an_adapter_that_is_closed(model: EngineModel, key: str) -> None:
    inputs = [np.array([[3, 4, 5]]), np.arange(3), np.array([2])]
    session, plain = model.session(), model.session()
    adapter = EngineAdapter(model, [Change(key)])
    session.use_adapter(adapter.handle)
    (adapted,) = session.run(inputs)
    adapter.close()
    (again,) = session.run(inputs)
    np.testing.assert_array_equal(adapted, again)
    assert not np.array_equal(plain.run(inputs)[0], adapted)
