"""Python's own collections are fewer within ``few_collections``, and as before after it."""

from __future__ import annotations

import gc
import subprocess
import sys
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


@pytest.mark.long
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


_BLOCKS = """
import sys
import torch
from edgec.free_memory import map_large_blocks

def resident():
    line = next(line for line in open("/proc/self/status") if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024

torch.ones(31 << 20, dtype=torch.uint8)  # glibc from now on keeps what is freed below 31 MB
if sys.argv[1] == "mapped":
    map_large_blocks()
held = [torch.ones(5 << 20, dtype=torch.uint8) for _ in range(40)]
before = resident()
held[:] = held[::2]
print(before - resident())
"""


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc and asks glibc")
def test_large_blocks_go_back_while_smaller_ones_beside_them_stay() -> None:
    freed = {
        mode: int(subprocess.run([sys.executable, "-c", _BLOCKS, mode], stdout=subprocess.PIPE, check=True).stdout)
        for mode in ("kept", "mapped")
    }
    # Twenty blocks of 5 MB; what Python itself allocates meanwhile is far less than one block.
    assert freed["mapped"] > 19 * (5 << 20) and freed["kept"] < 1 << 20
