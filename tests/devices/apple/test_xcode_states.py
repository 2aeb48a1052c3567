"""What is told where xcrun fails before it calls a tool, by the sentences that public projects recorded of real Macs."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from edgec.devices.apple.iphone import listed
from edgec.devices.apple.xcrun import devicectl, simctl
from edgec.errors import ToolError

LICENCE = (
    "You have not agreed to the Xcode license agreements. Please run 'sudo xcodebuild -license' from within a Terminal "
    "window to review and agree to the Xcode and Apple SDKs license."
)
TOOLS_ALONE = 'xcrun: error: unable to find utility "devicectl", not a developer tool or in PATH'
NO_SIMCTL = 'xcrun: error: unable to find utility "simctl", not a developer tool or in PATH'
GONE = (
    "xcrun: error: invalid active developer path (/Library/Developer/CommandLineTools), missing xcrun at: "
    "/Library/Developer/CommandLineTools/usr/bin/xcrun"
)


def xcrun_that_says(folder: Path, said: str, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "said").write_text(said + "\n")
    program = folder / "xcrun"
    program.write_text(f"#!/bin/sh\n/bin/cat '{folder}/said' >&2\nexit {status}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.parametrize(
    ("said", "status", "fix"),
    [
        (LICENCE, 69, "sudo xcodebuild -license accept"),
        (TOOLS_ALONE, 72, "xcode-select -s /Applications/Xcode.app"),
        (NO_SIMCTL, 72, "install Xcode"),
        (GONE, 1, "xcode-select --install"),
    ],
    ids=("licence", "command line tools alone", "no simulator", "after an update"),
)
def test_the_state_of_xcode_is_told_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, status: int, fix: str
) -> None:
    xcrun_that_says(tmp_path, said, status, monkeypatch)
    for ask in (listed, lambda: devicectl(["list", "devices"], "ios", "Listing"), lambda: simctl(["list"], "sim", "Listing")):
        with pytest.raises(ToolError) as refused:
            ask()
        assert (refused.value.code, refused.value.exit_code) == ("E921", 3)
        assert fix in refused.value.fix and refused.value.why in said


def test_another_failure_is_the_tools_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    xcrun_that_says(tmp_path, "An error nobody has seen.", 1, monkeypatch)
    with pytest.raises(ToolError) as refused:
        simctl(["list"], "sim", "Listing simulators")
    assert refused.value.code == "E557"


def test_without_xcrun_nothing_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError) as refused:
        listed()
    assert refused.value.code == "E552"
