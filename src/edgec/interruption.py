"""Ctrl-C ends a command wherever it arrives.

Python raises it between two instructions. Where these belong to a weak reference's callback, a finaliser or a function
that C calls, it prints the exception and forgets it; and some libraries' ``except:`` swallows it. Torch has thousands
of such callbacks in an export. So the first kind is sent again until it arrives elsewhere, and the second is noticed
by the next step that asks.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_AGAIN_S = 0.01


class _Asked:
    """Whether Ctrl-C was pressed, and whether a command is running that it is to end."""

    def __init__(self) -> None:
        self.pressed, self.running = False, False

    def note(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal: as Python does, but remembered."""
        self.pressed = True
        raise KeyboardInterrupt

    def send_again(self, thread: int) -> None:
        """Send a lost signal once more, from another thread: raised in the hook itself it would be lost as well."""
        time.sleep(_AGAIN_S)
        if self.running:
            signal.pthread_kill(thread, signal.SIGINT)


_ASKED = _Asked()


def raise_if_interrupted() -> None:
    """Raise the KeyboardInterrupt that something swallowed; called between the steps of long work.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed, and the work went on.
    """
    if _ASKED.pressed:
        _ASKED.pressed = False
        raise KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[None]:
    """Let no Ctrl-C be lost in this block; where the program handles or ignores the signal itself, that stays."""
    handler, hook = signal.getsignal(signal.SIGINT), sys.unraisablehook
    if handler is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return

    def hear(unraisable: sys.UnraisableHookArgs) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            # The threading module takes locks that the interrupted code may hold.
            _thread.start_new_thread(_ASKED.send_again, (threading.main_thread().ident or 0,))
        else:
            hook(unraisable)

    _ASKED.pressed, _ASKED.running = False, True
    signal.signal(signal.SIGINT, _ASKED.note)
    sys.unraisablehook = hear
    try:
        yield
    finally:
        _ASKED.running = False
        signal.signal(signal.SIGINT, handler)
        sys.unraisablehook = hook
