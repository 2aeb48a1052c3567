"""edgec's wheel for Linux on arm64, executed under qemu: a 4-bit bundle of this machine's, with equal tokens."""

from __future__ import annotations

import json
import platform
import shutil
import socket
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

import edgec
from edgec.bundle.folder import open_bundle
from edgec.engine.compile.wheels import kinds_named, make_wheels
from edgec.runtime_py.model import load
from tests.engine.linux_arm64 import EmulatedPython, emulated_python

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="a bundle of x86-64 is executed"),
]
PROMPT, TOKENS = "Once upon a time", 24


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> EmulatedPython:
    qemu = shutil.which("qemu-aarch64")
    assert qemu, "Debian: apt install qemu-user"
    folder = tmp_path_factory.mktemp("arm64")
    (wheel,) = make_wheels(kinds_named(["linux-arm64"]), folder / "wheels")
    return emulated_python(wheel, folder, qemu)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return edgec.export(
        "examples/tiny-stories", target="host", recipe="4bit", out=tmp_path_factory.mktemp("x86") / "tiny.edgec"
    )


@pytest.fixture(scope="module")
def written(bundle: Path) -> str:
    return load(bundle).generate(PROMPT, max_new_tokens=TOKENS).text


def test_it_says_what_is_there(python: EmulatedPython, tmp_path: Path) -> None:
    asked = python.edgec(("doctor", "--json"), tmp_path)
    said = json.loads(asked.communicate()[0])
    assert asked.returncode == 3 and "torch" in said["missing"], "PyTorch ends with a signal under Debian 12's qemu"
    assert "engine/built" in {check["name"]: check["found"] for check in said["checks"]}["edgec engine"]


def test_it_runs_and_verifies_a_bundle_of_another_processor(
    python: EmulatedPython, bundle: Path, written: str, tmp_path: Path
) -> None:
    words = ("run", str(bundle), "--raw", "-p", PROMPT, "--max-new-tokens", str(TOKENS), "--json")
    answer = json.loads(python.said(words, tmp_path))
    assert answer["text"] == written and len(answer["tokens"]) == TOKENS
    report = json.loads(python.said(("verify", str(bundle), "--json"), tmp_path))
    assert report["passed"]
    assert not list((tmp_path / "cache").glob("runner/*")), "the wheel's engine is used: nothing is compiled"


def test_it_serves_a_bundle_of_another_processor(
    python: EmulatedPython, bundle: Path, written: str, tmp_path: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = python.edgec(("serve", str(bundle), "--port", str(port)), tmp_path)
    try:
        asked = {"model": open_bundle(bundle).manifest.name, "prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0}
        assert _answered(f"http://127.0.0.1:{port}/v1/completions", asked)["choices"][0]["text"] == written
    finally:
        server.terminate()
        server.communicate()


def _answered(address: str, asked: dict[str, Any]) -> Any:
    """A server's answer, once it listens: imports take their time under emulation."""
    request = urllib.request.Request(address, json.dumps(asked).encode(), {"Content-Type": "application/json"})
    for _ in range(600):
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return json.load(answer)
        except URLError as refused:
            if not isinstance(refused.reason, ConnectionRefusedError):
                raise
            time.sleep(1)
    raise TimeoutError(address)
