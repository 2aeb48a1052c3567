from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import openai
import pytest

from edgec.cli.app import run_cli

# A suite that runs in the background hands down that the signal is ignored.
_INTERRUPTIBLE = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("edgec", run_name="__main__")
"""


def test_a_port_in_use_is_refused_before_anything_is_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert run_cli(["serve", str(tmp_path / "absent.edgec"), "--port", port]) == 1
    assert "E631" in capsys.readouterr().err


def test_a_bundle_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["serve", str(tmp_path / "absent.edgec"), "--port", "0"]) == 1
    assert "E130" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_serves_until_it_is_interrupted(tiny_bundle: Path) -> None:
    command = [sys.executable, "-c", _INTERRUPTIBLE, "serve", str(tiny_bundle), "--port", "0"]
    environment = {**os.environ, "EDGEC_API_KEY": "secret"}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as server:
        assert server.stdout is not None
        address = server.stdout.readline().split()[2]
        client = openai.OpenAI(base_url=address, api_key="secret", max_retries=4, timeout=120)
        (model,) = client.models.list()
        made = client.chat.completions.create(
            model=model.id, messages=[{"role": "user", "content": "Hi"}], max_tokens=4
        )
        assert made.usage is not None and made.usage.completion_tokens == 4
        server.send_signal(signal.SIGINT)
        _, errors = server.communicate(timeout=60)
        assert server.returncode == 130 and "Traceback" not in errors
