"""Python's own collections are fewer within ``few_collections``, and as before after it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from edgec import free_memory


@pytest.fixture(autouse=True)
def real_gc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(free_memory, "gc", gc)
    yield


def test_settings_return_also_after_an_error() -> None:
    before = (gc.get_threshold(), gc.get_freeze_count())
    with pytest.raises(KeyError), free_memory.few_collections():
        assert gc.get_threshold()[0] > before[0][0] and gc.get_freeze_count() > 0
        raise KeyError
    assert (gc.get_threshold(), gc.get_freeze_count()) == before


def test_what_somebody_froze_stays_frozen() -> None:
    gc.freeze()
    try:
        with free_memory.few_collections():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_cycles_made_inside_are_freed_inside() -> None:
    class Cycle:
        alive = 0

        def __init__(self) -> None:
            self.own = self
            Cycle.alive += 1

        def __del__(self) -> None:
            Cycle.alive -= 1

    with free_memory.few_collections():
        Cycle()
        assert Cycle.alive == 1
        free_memory.return_free_memory()
        assert Cycle.alive == 0
