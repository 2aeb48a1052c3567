"""The faults that the loopback phone can be given."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Faults:
    """All off by default; counters run down as they strike.

    Attributes:
        unauthorised: the phone never accepts this computer's key.
        cut_push_after: pull the cable when so many bytes have been pushed.
        cut_shell_at: pull it when a command has printed these bytes.
        cut_pull_of: pull it in the middle of sending the file of this name.
        cuts: how often the above strike.
        gone: once pulled, the cable stays out.
        hang: commands that contain this text never answer.
        drip: commands that contain this text answer forever, a byte at a time.
        corrupt: so many pushed files arrive with one byte changed.
        push_pause_s: how long the phone takes over each piece of a push.
        full_after: pushes beyond so many bytes find no space.
        pushed: bytes that came so far.
    """

    unauthorised: bool = False
    cut_push_after: int | None = None
    cut_shell_at: bytes | None = None
    cut_pull_of: str | None = None
    cuts: int = 1
    gone: bool = False
    hang: str | None = None
    drip: str | None = None
    corrupt: int = 0
    push_pause_s: float = 0.0
    full_after: int | None = None
    pushed: int = 0

    def strike(self) -> bool:
        """Whether a cut happens now; counts it down."""
        self.cuts -= 1
        return self.cuts >= 0
