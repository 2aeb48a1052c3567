"""Typed errors for everything that goes wrong with a phone on adb, each with what to do about it."""

from __future__ import annotations

from edgec.devices.answers import plain
from edgec.errors import EdgecError, InputError, ToolError

CABLE = "check the cable (or the network), unlock the phone, then run the command again"
OUT_OF_MEMORY = 137
SIGNALS = {
    OUT_OF_MEMORY: "killed (signal 9): usually memory ran out",
    139: "it crashed (signal 11)",
    132: "illegal instruction",
}
# A part of what adb's server says, then the error's code, what and fix.
REFUSALS = (
    (
        "unauthorized",
        "E542",
        "The phone has not authorised this computer.",
        "unlock it and accept 'Allow USB debugging'",
    ),
    ("no permissions", "E542", "This user may not open the phone's USB device.", "install android-udev-rules, replug"),
    ("not found", "E541", "No such phone is connected to adb.", "'edgec devices' lists what is connected"),
    ("no devices", "E541", "No such phone is connected to adb.", "'edgec devices' lists what is connected"),
    ("offline", "E543", "The phone is offline.", CABLE),
)


def refusal(said: str, where: str) -> EdgecError:
    """The error for what adb's server said; anything unknown counts as a lost connection."""
    said = plain(said)
    for part, code, what, fix in REFUSALS:
        if part in said.lower():
            kind = ConnectionLost if code == "E543" else InputError
            return kind(what, where, f"adb: {said}", fix, code)
    return lost(where, said)


def lost(where: str, why: str) -> EdgecError:
    """E543: the connection broke."""
    return ConnectionLost(
        "The connection to the phone was lost.", where, why or "it ended without an answer", CABLE, "E543"
    )


class ConnectionLost(InputError):
    """E543: the phone may come back; what was under way may be tried again."""


def hung(where: str, seconds: float) -> EdgecError:
    """E544: the phone did not answer within its time."""
    why = f"its answer was missing or incomplete after {seconds:g} s"
    return InputError("The phone does not answer.", where, why, "unlock it, or restart it, and run again", "E544")


def too_much(where: str, most_bytes: int) -> EdgecError:
    """E575: an answer that is larger than any valid one."""
    return unreadable(where, f"it is larger than {most_bytes:,} bytes")


def unreadable(where: str, why: str) -> EdgecError:
    """E575: an answer that cannot be used."""
    fix = "restart the phone and run again; if it happens again, the phone cannot be used"
    return InputError("The phone's answer cannot be used.", where, why, fix, "E575")


def no_adb(why: str) -> EdgecError:
    """E540: adb itself cannot be started."""
    fix = "pip install adbutils; or install platform-tools (Debian: apt install adb)"
    return ToolError("adb cannot be started.", "adb", why, fix, "E540")


def no_space(where: str, needed: int, free: int | None) -> EdgecError:
    """E545: the phone's storage is full."""
    known = "the phone reported it during a write" if free is None else f"{free / 1e6:,.0f} MB are free (measured)"
    why = f"{needed / 1e6:,.0f} MB must be written; {known}"
    return InputError("The phone has too little free space.", where, why, "free some space on it", "E545")


def wrong_abi(where: str, abi: str) -> EdgecError:
    """E546: the phone's processor cannot run the runner."""
    why = f"its processor runs {plain(abi) or 'an unknown ABI'}; the runner exists for arm64-v8a"
    return InputError("The runner cannot be executed on this phone.", where, why, "use a 64-bit Arm phone", "E546")


def differs(where: str, name: str) -> EdgecError:
    """E549: the file that arrived differs from the one that was sent."""
    why = f"the sha256 of {name} differs on the two sides, even after a second attempt"
    return InputError("A file was damaged on its way.", where, why, "use another cable or port; run again", "E549")


def failed(where: str, status: int, stderr: str, doing: str) -> EdgecError:
    """E547: a program on the phone failed or was killed."""
    last = plain(" ".join(stderr[-2000:].strip().splitlines()[-2:]), 300)
    why = (
        f"exit status {status}" + (f", {SIGNALS[status]}" if status in SIGNALS else "") + (f": {last}" if last else "")
    )
    fix = (
        "close apps on the phone, or use a smaller model or context"
        if status == OUT_OF_MEMORY
        else "report it with this message"
    )
    return ToolError(f"{doing} failed on the phone.", where, why, fix, "E547")
