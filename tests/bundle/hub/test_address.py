"""Addresses of bundles on the hub: what is one, and that everything else that begins as one is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgec.bundle.hub.address import HubAddress, hub_address
from edgec.errors import InputError

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize("path", ["tiny.edgec", "x/hub:a/b", "/tmp/hub:a/b", "HUB:a/b", ""])
def test_a_path_is_not_an_address(path: str) -> None:
    assert hub_address(path) is None and hub_address(Path(path)) is None


@pytest.mark.parametrize(
    ("text", "revision", "commit"),
    [
        ("hub:max/tiny", "main", None),
        ("hub:max/tiny@v1.0", "v1.0", None),
        ("hub:max/tiny@refs/pr/1", "refs/pr/1", None),
        (f"hub:max/tiny@{COMMIT}", COMMIT, COMMIT),
    ],
)
def test_an_address_has_a_revision(text: str, revision: str, commit: str | None) -> None:
    address = hub_address(Path(text))
    assert address == HubAddress("max/tiny", revision) and address.commit == commit
    assert (str(address), address.name) == (text, "tiny")


WRONG = [
    *("", "tiny", "max/", "/tiny", "max/tiny/x", "max/../x", "../x", "max/-tiny", "max/.tiny", "max/tiny.", "mäx/tiny"),
    *("max/ti ny", "max/tiny@", "max/tiny@..", "max/tiny@a//b", "max/tiny@/etc", "max/tiny@a@b", "max/tiny@a b"),
    *("max/ti--ny", f"max/{'x' * 200}", f"max/tiny@{'x' * 101}", "max/tiny@x\n", "max/tiny\0", "//max/tiny"),
]


@pytest.mark.parametrize("text", WRONG)
def test_what_only_begins_as_an_address_is_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        hub_address(f"hub:{text}")
    assert caught.value.code == "E873" and "hub:OWNER/NAME" in caught.value.fix
