"""Ctrl-C is never lost: wherever the signal arrives, the block or the command ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress

import pytest

from edgec.exporter.progress import Progress
from edgec.interruption import interruptible, raise_if_interrupted

END_S = 60.0
PLACES = {
    "a weak reference's callback": "thing = Thing(); kept = weakref.ref(thing, lambda _: press()); del thing",
    "a weak key's callback": "keys = Keys(); thing = Thing(); keys[thing] = 1; del thing",
    "a finaliser": "thing = Ends(); del thing",
    "a function that C calls": "ctypes.CFUNCTYPE(None)(press)()",
    "a finaliser that a collection calls": "thing = Ends(); thing.own = thing; del thing; gc.collect()",
}
PROGRAM = """
import ctypes, gc, os, signal, time, weakref
from edgec.interruption import interruptible

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it

def press():
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):
        pass  # the interpreter handles signals where it jumps back

class Thing: pass

class Ends:
    def __del__(self): press()

class Keys(weakref.WeakKeyDictionary):
    def __init__(self):
        super().__init__()
        remove, self._remove = self._remove, lambda key: (press(), remove(key))

try:
    with interruptible():
        {place}
        time.sleep(60)
    print("lost")
except KeyboardInterrupt:
    print("arrived")
"""


def run(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *words],
        capture_output=True,
        text=True,
        timeout=END_S,
        check=False,
    )


@pytest.mark.parametrize("place", PLACES)
def test_a_signal_that_python_would_lose_arrives(place: str) -> None:
    done = run(PROGRAM.replace("{place}", PLACES[place]))
    assert (done.stdout, done.stderr) == ("arrived\n", "")


def test_what_a_library_swallows_is_noticed_by_the_next_step() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with interruptible():
            Progress().enter("rewrite")
            with suppress(BaseException):  # as a library's bare "except:"
                signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                Progress().step(0.5)
            raise_if_interrupted()  # once
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_program_that_handles_the_signal_itself_still_does() -> None:
    before, hook = signal.signal(signal.SIGINT, signal.SIG_IGN), sys.unraisablehook
    try:
        with interruptible():
            assert (signal.getsignal(signal.SIGINT), sys.unraisablehook) == (signal.SIG_IGN, hook)
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


START = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)

class Press:
    def find_spec(self, name, path=None, target=None):
        if name == wanted:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Press())
wanted, sys.argv = sys.argv[1], ["edgec", "run", "x.edgec"]
from edgec.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["edgec.cli.app", "typer", "edgec.quiet", "edgec.errors", "edgec.cli.run", "numpy"])
def test_a_command_that_is_just_starting_ends_without_a_traceback(module: str) -> None:
    """Only what Python itself imports before edgec is beyond its reach."""
    done = run(START, module)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.strip() == "interrupted; nothing was left behind"
