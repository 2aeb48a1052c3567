"""Inputs of a bundle: whole numbers of any type where the artifact's holds them, and nothing else converted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgec.bundle.entry_points import MethodInfo, TensorInfo
from edgec.errors import InputError
from edgec.runtime_py.functions.function import _checked


def checked(array: Any, dtype: str) -> Any:
    info = TensorInfo(name="x", dtype=dtype, shape=[2])
    return _checked(array, info, MethodInfo(name="forward", inputs=[info], outputs=[info]))


@pytest.mark.parametrize(("given", "wanted"), [("int64", "int32"), ("int32", "int64"), ("uint8", "int32")])
def test_whole_numbers_take_the_artifacts_type(given: str, wanted: str) -> None:
    found = checked(np.array([1, 200], given), wanted)
    assert found.dtype == wanted and found.tolist() == [1, 200]


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.array([1, 1 << 40]), "int32"),
        (np.array([1, -1]), "uint8"),
        (np.array([1.0, 2.0]), "int32"),
        (np.array([1, 2]), "float32"),
        (np.array([1.0, 2.0]), "float32"),
        (np.array([1, 2, 3]), "int32"),
        (np.array([True, False]), "int32"),
        (np.zeros((0,), np.int64), "int32"),
    ],
)
def test_what_would_change_is_refused(array: Any, dtype: str) -> None:
    with pytest.raises(InputError) as refused:
        checked(array, dtype)
    assert refused.value.code == "E152"
