"""Whatever is asked for, the caller's process lives and is told why: E614 by a limit, or by the end of another one."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.errors import InputError, ToolError
from edgec.runtime_py.messages import sheet
from edgec.runtime_py.structured import structures
from edgec.runtime_py.structured.patience import while_wanted
from edgec.runtime_py.structured.structures import CompiledStructure, Structures
from edgec.runtime_py.structured.vocabulary import Vocabulary
from edgec.runtime_py.structured.wanted import normalised_schema, wanted
from edgec.runtime_py.structured.worker import limits, processes
from edgec.runtime_py.structured.worker.describers import DESCRIBERS, Describers
from edgec.runtime_py.structured.worker.service import Service
from tests.runtime_py.structured.hostile import BEYOND, WITHIN, chain, gbnf, nested

BYTES = Vocabulary((*(bytes([byte]) for byte in range(256)), b""), frozenset([256]), frozenset([256]))
# Its conversion to Lark's notation takes time by the square of its rules: 17 seconds here, where 5 are allowed.
UNCOUNTED = {"grammar": gbnf(7_900).replace("::= r", '::= "b" r')}


@pytest.fixture(scope="module")
def made() -> Structures:
    return Structures(BYTES)


def compiled(made: Structures, **asked: Any) -> CompiledStructure:
    one = wanted(**asked)
    assert one is not None
    return made.compiled(one)


def process_of(structure: CompiledStructure) -> int:
    return structure.compiled._worker._place[1]


def has_ended(process: int) -> bool:
    """Whether nothing is left of a process but how it ended, which nobody has asked for yet."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")


def ended(process: int) -> bool:
    """Whether a process is gone, or nobody but its parent knows it any more."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    with open(f"/proc/{process}/stat") as state:
        return state.read().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.long
@pytest.mark.parametrize("name", BEYOND)
def test_what_is_beyond_a_limit_is_refused_by_it(name: str) -> None:
    with pytest.raises(InputError) as refused:
        wanted(**BEYOND[name])
    assert refused.value.code == "E614" and "process" not in refused.value.why, refused.value.why
    assert DESCRIBERS._idle, "the process lives: the limit was counted"


@pytest.mark.long
@pytest.mark.parametrize("name", WITHIN)
def test_what_is_within_the_limits_is_held(made: Structures, name: str) -> None:
    text = compiled(made, **WITHIN[name]).begin(50)
    assert np.isfinite(text.mask(np.zeros(257, np.float32))).any()


@pytest.mark.long
@pytest.mark.parametrize("depth", [1, 4, 5, 6])
def test_the_work_for_a_oneof_does_not_grow_with_the_power_of_its_depth(depth: int) -> None:
    with pytest.raises(InputError, match=r"E613|E614") as refused:
        normalised_schema({"oneOf": [nested(depth), nested(depth)]})
    assert refused.value.where == "#/oneOf"


def test_tagged_parts_and_constants_still_exclude_each_other() -> None:
    tagged = [
        {"type": "object", "properties": {"kind": {"const": place}}, "required": ["kind"]} for place in range(150)
    ]
    assert "anyOf" in normalised_schema({"oneOf": tagged})
    assert "anyOf" in normalised_schema(
        {"oneOf": [{"const": place} for place in range(5_000)] + [{"enum": ["a", "b"]}]}
    )
    with pytest.raises(InputError, match="E613"):
        normalised_schema({"oneOf": [{"const": 1}, {"const": 2}, {"enum": [3, 1.0]}]})


def test_a_process_that_dies_is_an_answer_and_the_next_one_is_asked(made: Structures) -> None:
    structure = compiled(made, regex="[ab]{1,9}")
    text, other = structure.begin(9), compiled(made, regex="[cd]{1,9}").begin(9)
    os.kill(process_of(structure), signal.SIGSEGV)
    # Its threads end one after the other, and one of them may answer once more.
    until(lambda: has_ended(process_of(structure)))
    with pytest.raises(InputError, match="nested too deeply") as refused:
        text.take(97)
    assert refused.value.code == "E614" and not structure.compiled.alive
    assert other.take(99) == 99, "other structures' texts go on"
    assert compiled(made, regex="[ab]{1,9}").begin(9).take(97) == 97
    with pytest.raises(InputError, match="E614"):
        structure.begin(9)


@pytest.mark.long
def test_what_no_limit_counts_ends_by_its_processor_time() -> None:
    with pytest.raises(InputError, match="processor time") as refused:
        wanted(**UNCOUNTED)
    assert refused.value.code == "E614"
    assert wanted(regex="a") is not None


@pytest.mark.long
def test_the_process_of_processes_is_started_again() -> None:
    made = Structures(BYTES)
    first = compiled(made, regex="a{1,4}").begin(4)
    parent = made._workers._parent
    assert parent is not None
    parent.process.kill()
    parent.process.wait()
    assert compiled(made, regex="b{1,4}").begin(4).take(98) == 98
    assert first.take(97) == 97, "what it forked lives on"


@pytest.mark.long
def test_an_order_that_is_interrupted_is_not_answered_later(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Structures(BYTES)
    compiled(made, regex="a{1,4}")

    def interrupted(parent: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(processes._Parent, "_hear", interrupted)
        compiled(made, regex="b{1,4}")
    assert compiled(made, regex="b{1,4}").begin(4).take(98) == 98


def test_only_so_many_structures_are_kept(made: Structures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structures, "_KEPT", 2)
    for regex in ("k1", "k2", "k1", "k3"):
        compiled(made, regex=regex)
    assert [one.wanted.grammar for one in made._kept.values()] == [wanted(regex=rx).grammar for rx in ("k1", "k3")]  # type: ignore[union-attr]
    monkeypatch.setattr(structures, "_KEPT_BYTES", -1)
    compiled(made, regex="k4")
    assert len(made._kept) == 1, "together they take too much memory"


def test_a_message_has_only_so_many_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheet, "_MOST_SCHEMAS", 2)
    made = sheet.Sheet({})
    assert [made.json({"const": place}, "f") for place in range(2)] == ["@json_0", "@json_1"]
    with pytest.raises(InputError, match="E614"):
        made.json({"const": 2}, "f")


def test_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_MODULE", "edgec.no_such_module")
    with pytest.raises(ToolError) as refused:
        Describers().describe("regex", b"a")
    assert refused.value.code == "E647" and refused.value.fix


@pytest.mark.long
@linux
def test_a_structure_that_nobody_keeps_leaves_no_process(made: Structures) -> None:
    structure = compiled(made, regex="x{1,3}")
    process = process_of(structure)
    made._kept.clear()
    del structure
    gc.collect()
    until(lambda: ended(process))
    compiled(made, regex="y{1,3}")
    until(lambda: not os.path.exists(f"/proc/{process}"))


@pytest.mark.long
def test_texts_that_nobody_keeps_are_forgotten(made: Structures) -> None:
    structure = compiled(made, regex="z{1,3}")
    for _ in range(5):
        structure.begin(3)
    gc.collect()
    assert len(structure.compiled._dropped) == 1, "those before were told with the next one"


class Unwanted(Exception):
    pass


@pytest.mark.long
@linux
def test_a_wait_ends_as_soon_as_the_answer_is_not_wanted() -> None:
    """The description would take all its processor time; its process is ended before."""
    describers, asked = Describers(), threading.Event()
    describers.describe("regex", b"a")
    worker = describers._idle[0]

    def check() -> None:
        if worker._turn.locked() and asked.is_set():
            raise Unwanted
        asked.set()

    with while_wanted(check), pytest.raises(Unwanted):
        describers.describe("grammar", UNCOUNTED["grammar"].encode())
    assert not worker.alive and not describers._idle
    assert ended(worker._place[1])


def test_a_text_whose_tokens_take_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from edgec.runtime_py.structured.closing import Closer
    from edgec.runtime_py.structured.descriptions import described_regex
    from edgec.runtime_py.structured.engine import GrammarEngine

    service = Service(GrammarEngine(BYTES), Closer(BYTES))
    service.answer({"do": "compile", "sought": []}, described_regex(b"[ab]{1,90}").grammar.encode())
    service.answer({"do": "begin", "text": 0, "budget": 90, "closes": False, "masks": True})
    take = {"do": "take", "text": 0, "token": 97, "masks": True}
    assert "token" in service.answer(take)[0]
    service._spent[0] = limits.TEXT_SECONDS + limits.TOKEN_SECONDS * 2.5
    assert "processor time each" in service.answer(take)[0]["error"]["why"]
    assert "token" in service.answer(take)[0], "the average is what counts"


def test_a_fault_of_our_own_is_not_taken_for_a_limit() -> None:
    assert "KeyError" in Service(None, None).answer({"do": "nothing"})[0]["fault"]


def test_the_end_of_a_process_is_told_in_words() -> None:
    assert "MiB" in limits.told_end(-signal.SIGABRT) and "s of processor time" in limits.told_end(-signal.SIGXCPU)
    assert "SIGKILL" in limits.told_end(-signal.SIGKILL) and "code 3" in limits.told_end(3)


@pytest.mark.long
def test_a_chain_at_the_limit_and_one_beyond_it() -> None:
    assert normalised_schema(chain(4_000))["$ref"]
    with pytest.raises(InputError, match="levels"):
        normalised_schema(chain(4_200))
