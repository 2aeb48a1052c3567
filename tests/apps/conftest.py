"""Fixtures that the tests of app packages share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgec.apps.embed import app_facts
from tests.apps import swift_toolchain
from tests.apps.download_apps import App, Made
from tests.apps.ios_bundles import target
from tests.apps.parts_server import PartsServer, serving
from tests.apps.swift_toolchain import Swift


@pytest.fixture(autouse=True)
def npu_pte(monkeypatch: pytest.MonkeyPatch) -> None:
    """Targets for the sample bundles."""
    monkeypatch.setattr(app_facts, "load_target", target)


@pytest.fixture(scope="session")
def swift(tmp_path_factory: pytest.TempPathFactory) -> Swift:
    """Swift 6 with the stand-ins' modules."""
    why = swift_toolchain.missing()
    if why is not None:
        pytest.skip(why)
    return swift_toolchain.stand_in_modules(tmp_path_factory.mktemp("swift"))


@pytest.fixture
def swift_folder(swift: Swift, request: pytest.FixtureRequest) -> Path:
    """A separate folder for the test that the compiler sees."""
    folder = swift.work / "".join(character if character.isalnum() else "_" for character in request.node.name)
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def app(made: Made) -> Iterator[App]:
    """The downloader of the file's own `made`, in a process for all its tests."""
    with made.running() as started:
        yield started


@pytest.fixture
def parts(made: Made) -> Iterator[PartsServer]:
    """A server of the parts that it gets."""
    with serving(made.parts) as started:
        yield started
