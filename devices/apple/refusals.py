"""Typed errors for what Apple's tools refuse, each with what to do about it.

Codes and sentences are those that public projects recorded: flutter_tools' tests of devicectl (CoreDeviceError 1005),
launch failures on a locked phone (RemotePairingError 1016, FBSOpenApplicationErrorDomain 7) and with an untrusted
developer (FBSOpenApplicationErrorDomain 3, "Security").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from edgec.devices.answers import plain
from edgec.errors import EdgecError, InputError, ToolError


@dataclass(frozen=True)
class ErrorLink:
    """One error in a chain of errors."""

    domain: str
    code: int
    text: str


def chain(error: Mapping[str, Any]) -> Iterator[ErrorLink]:
    """An error in devicectl's JSON, followed by all errors that caused it."""
    info = error.get("userInfo")
    info = info if isinstance(info, Mapping) else {}
    texts = [
        info.get(name) for name in ("NSLocalizedDescription", "NSLocalizedFailureReason", "BSErrorCodeDescription")
    ]
    said = [plain(text.get("string") if isinstance(text, Mapping) else text) for text in texts]
    code = error.get("code")
    yield ErrorLink(plain(error.get("domain")), code if isinstance(code, int) else 0, "; ".join(filter(None, said)))
    beneath = info.get("NSUnderlyingError")
    if isinstance(beneath, Mapping):
        inner = beneath.get("error", beneath)
        yield from chain(inner) if isinstance(inner, Mapping) else ()


LOCKED = ("could not be, unlocked", "not been unlocked", "was still locked", "is locked", "Locked")
UNTRUSTED = ("not been explicitly trusted", "Security", "profile has not been", "untrusted")
DEVELOPER_MODE = ("Developer Mode", "developer mode")
ABSENT = ("not found", "No devices", "Unable to locate a device", "was not found")


def refusal(links: list[ErrorLink], where: str, doing: str) -> EdgecError:
    """The typed error for a chain of errors."""
    said = "; ".join(link.text for link in links if link.text)
    if any(link.code == 1016 and "Pairing" in link.domain for link in links) or _any(LOCKED, said):
        return locked(where, said)
    if _any(DEVELOPER_MODE, said):
        return developer_mode(where, said)
    if any(link.code == 3 and "FBSOpenApplication" in link.domain for link in links) or _any(UNTRUSTED, said):
        return untrusted_developer(where, said)
    if _any(ABSENT, said):
        return absent(where, said)
    codes = ", ".join(f"{link.domain} {link.code}" for link in links if link.domain)
    fix = "run the command by hand for more: xcrun devicectl --verbose ..."
    return ToolError(f"{doing} failed.", where, "; ".join(filter(None, (said[:300], codes))), fix, "E557")


# What xcrun says before it calls a tool, and what to do about it.
_XCODE: Final = (
    (
        ("agreed to the Xcode license", "agree to the Xcode license"),
        ("Xcode's licence has not been accepted.", "accept it once: sudo xcodebuild -license accept"),
    ),
    (
        ("unable to find utility", "requires Xcode, but active developer directory"),
        (
            "Xcode is not installed, or not the one in use: the command line tools alone have no tool for devices.",
            "install Xcode from the App Store, open it once, then: "
            "sudo xcode-select -s /Applications/Xcode.app/Contents/Developer",
        ),
    ),
    (
        ("invalid active developer path",),
        ("Apple's command line tools are gone, as after an update of macOS.", "run: xcode-select --install"),
    ),
)


def xcode_fault(said: str, where: str) -> ToolError | None:
    """E921 where xcrun itself failed before it called a tool; None where it did not."""
    for sentences, (what, fix) in _XCODE:
        if _any(sentences, said):
            return ToolError(what, where, plain(said.strip().splitlines()[0][:300]), fix, "E921")
    return None


def _any(parts: tuple[str, ...], text: str) -> bool:
    return any(part in text for part in parts)


def locked(where: str, why: str) -> InputError:
    """E553: the iPhone is locked."""
    return InputError("The iPhone is locked.", where, why, "unlock it and keep its screen on, then run again", "E553")


def untrusted_developer(where: str, why: str) -> InputError:
    """E554: the phone does not trust the app's developer."""
    fix = "on the phone: Settings, General, VPN & Device Management, trust the developer; then run again"
    return InputError("The iPhone does not trust the app.", where, why, fix, "E554")


def unpaired(where: str, why: str) -> InputError:
    """E554: the phone does not trust this computer."""
    fix = "connect it by cable, unlock it, and tap Trust on it"
    return InputError("The iPhone does not trust this computer.", where, why, fix, "E554")


def developer_mode(where: str, why: str) -> InputError:
    """E555: Developer Mode is off."""
    fix = "on the phone: Settings, Privacy & Security, Developer Mode, on; it restarts"
    return InputError("Developer Mode is off on the iPhone.", where, why, fix, "E555")


def too_old(where: str, has: str, needs: str) -> InputError:
    """E556: the iPhone's system is older than the bundle's format needs."""
    why, fix = f"it runs {has}, the bundle's format needs {needs}", "update the phone, or export in an older --format"
    return InputError("The iPhone's system is too old for this bundle.", where, why, fix, "E556")


def absent(where: str, why: str) -> InputError:
    """E541: no such iPhone is connected."""
    return InputError("No such iPhone is connected.", where, why, "'edgec devices' lists what is connected", "E541")
