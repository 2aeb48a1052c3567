"""Examples from ``--inputs``: what is read, and what is refused with a code of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from edgec.errors import InputError
from edgec.exporter.sources.modules.given_inputs import MOST_EXAMPLES, bind_inputs, read_inputs

NAMES, EXAMPLES = ("x", "ids"), (torch.zeros(1, 2, 3), torch.zeros(4, dtype=torch.int32))
DRAWN = np.random.default_rng(0)


def values(count: int, dtype: str = "float32") -> Any:
    return DRAWN.normal(size=(count, 2, 3)).astype(dtype)


def ids(count: int) -> Any:
    return DRAWN.integers(0, 9, (count, 4))


def bound(folder: Path, **arrays: Any) -> tuple[tuple[tuple[Tensor, ...], ...], int]:
    np.savez(folder / "given.npz", **arrays)
    return bind_inputs(read_inputs(folder / "given.npz"), NAMES, EXAMPLES)


def test_arrays_hold_examples_along_the_first_axis(tmp_path: Path) -> None:
    given, whole = values(3, "float64"), ids(3)
    calls, count = bound(tmp_path, x=given, ids=whole)
    assert count == 3 and len(calls) == 3
    for index, (x, tokens) in enumerate(calls):
        torch.testing.assert_close(x, torch.from_numpy(given[index : index + 1]).float(), rtol=0, atol=0)
        assert tokens.dtype is torch.int32 and tokens.tolist() == whole[index].tolist()
    stacked, _ = bound(tmp_path, x=given[:, None], ids=whole)
    assert all(torch.equal(a[0], b[0]) for a, b in zip(calls, stacked, strict=True))


def test_a_folder_holds_an_example_a_file(tmp_path: Path) -> None:
    for index, name in enumerate("ba"):
        np.save(tmp_path / f"{name}.npy", np.full((1, 2, 3), index, "float32") + values(1))
    (tmp_path / "notes.txt").write_text("not an example")
    given = read_inputs(tmp_path)
    calls, count = bind_inputs(given, NAMES[:1], EXAMPLES[:1])
    assert count == 2 and torch.equal(calls[0][0], torch.from_numpy(np.load(tmp_path / "a.npy")))
    np.save(tmp_path / "a.npy", values(1))
    assert read_inputs(tmp_path).digest != given.digest


def test_of_many_examples_some_from_everywhere_are_taken(tmp_path: Path) -> None:
    given = values(5 * MOST_EXAMPLES)
    given[:, 0, 0] = np.arange(len(given))
    calls, count = bound(tmp_path, x=given, ids=ids(len(given)))
    assert count == len(given) and [float(x[0, 0, 0]) for x, _ in calls] == list(range(0, len(given), 5))


@pytest.mark.parametrize(
    ("code", "arrays"),
    [
        ("E832", {"x": values(2)}),
        ("E832", {"x": values(2), "ids": ids(2), "mask": ids(2)}),
        ("E833", {"x": values(2), "ids": ids(3)}),
        ("E833", {"x": values(2)[:, :1], "ids": ids(2)}),
        ("E833", {"x": np.float32(1), "ids": ids(2)}),
        ("E834", {"x": ids(2).reshape(2, 4), "ids": ids(2)}),
        ("E834", {"x": np.zeros((2, 2, 3), "uint8"), "ids": ids(2)}),
        ("E834", {"x": values(2), "ids": ids(2).astype("float32")}),
        ("E834", {"x": values(2), "ids": ids(2) + (1 << 40)}),
        ("E835", {"x": np.where(np.arange(6).reshape(2, 3) == 4, np.nan, values(3)), "ids": ids(3)}),
        ("E837", {"x": values(1), "ids": ids(1)}),
        ("E838", {"x": np.repeat(values(1), 3, 0), "ids": np.repeat(ids(1), 3, 0)}),
        ("E838", {"x": np.ones((3, 2, 3), "float32") * np.arange(3).reshape(3, 1, 1).astype("float32"), "ids": ids(3)}),
    ],
)
def test_what_does_not_fit_is_refused(code: str, arrays: Mapping[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        bound(tmp_path, **arrays)
    assert refused.value.code == code and refused.value.fix and str(tmp_path) in refused.value.where


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.npz").write_bytes(b"PK\x03\x04 not a zip file")
    np.savez(tmp_path / "objects.npz", x=np.array([{"a": 1}], dtype=object))
    np.savez(tmp_path / "words.npz", x=np.array(["a", "b"]))
    np.savez(tmp_path / "nothing.npz")
    for name in ("empty", "absent.npz", "text.npz", "objects.npz", "words.npz", "nothing.npz"):
        with pytest.raises(InputError) as refused:
            read_inputs(tmp_path / name)
        assert refused.value.code == "E831", name
