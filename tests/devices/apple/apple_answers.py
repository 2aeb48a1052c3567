"""Answers of Apple's tools, in the shape that public projects recorded; none was recorded by edgec on a Mac."""

from __future__ import annotations

from typing import Any

UDID, IDENTIFIER = "00008140-000A1C2E3D4F001C", "5B4C4E0B-7C1A-4F3E-9D21-0E6A5B3C2D1F"
SIMULATOR = "9E07BD20-1111-2222-3333-444455556666"


def phone(**changes: Any) -> dict[str, Any]:
    """One device in the answer of ``devicectl list devices``."""
    fields: dict[str, Any] = {"paired": "paired", "tunnel": "connected", "mode": "enabled", "version": "27.0"}
    fields |= changes
    return {
        "identifier": IDENTIFIER,
        "connectionProperties": {
            "authenticationType": "manualPairing",
            "pairingState": fields["paired"],
            "transportType": "wired",
            "tunnelState": fields["tunnel"],
        },
        "deviceProperties": {
            "bootState": "booted",
            "developerModeStatus": fields["mode"],
            "name": "A phone {of} mine",
            "osBuildUpdate": "24A335",
            "osVersionNumber": fields["version"],
        },
        "hardwareProperties": {
            "cpuType": {"name": "arm64e"},
            "deviceType": "iPhone",
            "marketingName": "iPhone 16 Pro",
            "platform": "iOS",
            "productType": "iPhone17,1",
            "udid": UDID,
        },
    }


WATCH = {"identifier": "W", "hardwareProperties": {"platform": "watchOS", "udid": "W"}}


def devices(*phones: dict[str, Any]) -> dict[str, Any]:
    return {"info": {"outcome": "success", "jsonVersion": 2}, "result": {"devices": [WATCH, *phones]}}


def failure(*links: tuple[str, int, str]) -> dict[str, Any]:
    """A failed command: (domain, code, text) from the outermost error to the innermost."""
    error: dict[str, Any] | None = None
    for domain, code, text in reversed(links):
        info: dict[str, Any] = {"NSLocalizedDescription": {"string": text}} if text else {}
        if error is not None:
            info["NSUnderlyingError"] = {"error": error}
        error = {"code": code, "domain": domain, "userInfo": info}
    return {"info": {"outcome": "failed"}, "error": error}


CORE, PAIRING, OPEN = "com.apple.dt.CoreDeviceError", "com.apple.dt.RemotePairingError", "FBSOpenApplicationErrorDomain"
LOCKED_TUNNEL = failure(
    (CORE, 10003, "The operation failed because the device was still locked."),
    (PAIRING, 1016, "The device has not been unlocked recently"),
)
LOCKED_LAUNCH = failure(
    (CORE, 10002, "The application failed to launch."),
    (OPEN, 7, "Unable to launch it because the device was not, or could not be, unlocked."),
)
UNTRUSTED = failure(
    (CORE, 10002, "The application failed to launch."),
    ("FBSOpenApplicationServiceErrorDomain", 1, "The request to open it failed."),
    (OPEN, 3, ""),
)
STRANGE = failure((CORE, 4242, "Something nobody has seen."))
SIMULATORS = {
    "devices": {
        "com.apple.CoreSimulator.SimRuntime.tvOS-26-0": [{"udid": "T", "state": "Booted", "name": "Apple TV"}],
        "com.apple.CoreSimulator.SimRuntime.iOS-27-0": [
            {"udid": SIMULATOR, "state": "Booted", "isAvailable": True, "name": "iPhone 17 Pro"},
        ],
    }
}
USBMUX = [
    {
        "ConnectionType": "USB",
        "DeviceClass": "iPhone",
        "DeviceName": "A phone of mine",
        "Identifier": UDID,
        "ProductType": "iPhone17,1",
        "ProductVersion": "27.0",
    }
]
