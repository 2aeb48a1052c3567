"""The engine's C interface for adapters: every format of numbers, files, and what does not fit the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edgec.bundle.adapter_targets import targets_of
from edgec.bundle.folder import open_bundle
from edgec.bundle.tensor_file import FloatTensor
from edgec.errors import InputError
from edgec.runtime_py.engines.engine import EngineModel
from edgec.runtime_py.engines.engine_adapter import EngineAdapter

FLOATS = NDArray[np.float32]
QUERY = "model.layers.0.self_attn.q_proj"
INPUTS = [np.array([[3, 4, 5]]), np.arange(3), np.array([2])]


def stored(values: FLOATS, dtype: str = "F32") -> FloatTensor:
    """Numbers as a file holds them; those of bfloat16 must have no more bits than it."""
    if dtype == "BF16":
        raw = (np.ascontiguousarray(values).view(np.uint32) >> 16).astype(np.uint16).tobytes()
    else:
        raw = values.astype({"F32": np.float32, "F16": np.float16}[dtype]).tobytes()
    return FloatTensor(dtype, values.shape, memoryview(raw))


def ones(*shape: int) -> FloatTensor:
    return stored(np.ones(shape, np.float32))


@dataclass
class Change:
    key: str
    a: FloatTensor = field(default_factory=lambda: ones(2, 32))
    b: FloatTensor = field(default_factory=lambda: ones(32, 2))
    scale: float = 1.0


@pytest.fixture
def model(four_bits: Path) -> EngineModel:
    return EngineModel(four_bits / "model.pte")


@pytest.fixture
def key(four_bits: Path) -> str:
    targets = targets_of(open_bundle(four_bits)).targets
    return next(target.key for target in targets if target.name == QUERY)


def adapted(model: EngineModel, change: Change) -> FLOATS:
    """The model's logits under one change."""
    session, adapter = model.session(), EngineAdapter(model, [change])
    session.use_adapter(adapter.handle)
    (logits,) = session.run(INPUTS)
    return np.array(logits)


@pytest.mark.parametrize("rank", [1, 17, 64, 65])
def test_a_format_and_a_scale_change_no_bit(model: EngineModel, key: str, rank: int) -> None:
    generator = np.random.default_rng(rank)
    # Few bits, so that every format holds these numbers.
    a, b = (generator.integers(-8, 9, shape).astype(np.float32) / np.float32(64) for shape in ((rank, 32), (32, rank)))
    wanted = adapted(model, Change(key, stored(a), stored(b * np.float32(3))))
    for dtypes in (("F16", "BF16"), ("BF16", "F16"), ("F16", "F16"), ("F32", "F32")):
        same = Change(key, stored(a, dtypes[0]), stored(b, dtypes[1]), scale=3.0)
        np.testing.assert_array_equal(adapted(model, same), wanted)
    assert not np.array_equal(wanted, adapted(model, Change(key, stored(a), stored(b))))


def test_numbers_may_lie_at_any_address(model: EngineModel, key: str) -> None:
    values = (np.arange(64, dtype=np.float32) - 32).reshape(2, 32) / np.float32(64)
    apart = stored(values, "F16")
    odd = FloatTensor("F16", (2, 32), memoryview(bytes([0, *apart.data]))[1:])
    np.testing.assert_array_equal(adapted(model, Change(key, odd)), adapted(model, Change(key, apart)))


def test_what_is_not_a_matrix_of_the_model_is_refused(model: EngineModel, key: str) -> None:
    wrong = {
        "no matrix": Change("ab" * 32),
        "has 32 x 32": Change(key, a=ones(2, 31)),
        "33 x 32": Change(key, b=ones(33, 2)),
        "a rank of 5000": Change(key, ones(5000, 32), ones(32, 5000)),
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
    session, plain = model.session(), model.session()
    adapter = EngineAdapter(model, [Change(key)])
    session.use_adapter(adapter.handle)
    (adapted,) = session.run(INPUTS)
    adapter.close()
    (again,) = session.run(INPUTS)
    np.testing.assert_array_equal(adapted, again)
    assert not np.array_equal(plain.run(INPUTS)[0], adapted)
