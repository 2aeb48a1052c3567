"""Runs in processes of their own: killed at three points, and two at once under ``accelerate launch``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

STEPS = 12
TRAINING = ("--steps", str(STEPS), "--batch", "2", "--length", "32", "--checkpoint-every", "1", "--ema", "0.9")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def command(model: Path, text: Path, out: Path) -> list[str]:
    """A run at the command line."""
    job = ["adapt", str(model), "--recipe", "balanced2", "--text", str(text), "--out", str(out), "--json"]
    return ["-m", "edgec", *job, *TRAINING]


def last_loss(out: Path) -> float:
    curve = json.loads((out / "training.json").read_text())["curve"]
    return float(curve[-1]["held_out"])


def killed_behind(step: int, arguments: list[str]) -> None:
    """Start a run and kill it once it has told of a step."""
    process = subprocess.Popen(
        [sys.executable, *arguments], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=ENVIRONMENT
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith('{"progress"') and json.loads(line)["progress"]["step"] >= step:
            break
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


@pytest.mark.slow
def test_killed_at_three_points_it_ends_with_the_same_loss(tiny_folder: Path, story: Path, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    subprocess.run([sys.executable, *command(tiny_folder, story, whole)], check=True, env=ENVIRONMENT)
    for step in (2, 5, 9):
        killed_behind(step, command(tiny_folder, story, parts))
        assert not parts.exists()
    subprocess.run([sys.executable, *command(tiny_folder, story, parts)], check=True, env=ENVIRONMENT)
    # the same float32 operations in the same order on one thread
    assert last_loss(parts) == pytest.approx(last_loss(whole), abs=1e-6)


@pytest.mark.slow
def test_two_processes_train_one_model(tiny_folder: Path, story: Path, tmp_path: Path) -> None:
    out = tmp_path / "together"
    # accelerate starts several processes on CPUs through MPI only, or as it does for GPUs
    launch = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1"]
    launch += ["--mixed_precision", "no", "--dynamo_backend", "no"]
    subprocess.run([sys.executable, *launch, *command(tiny_folder, story, out)], check=True, env=ENVIRONMENT)
    table = json.loads((out / "training.json").read_text())
    assert table["curve"][-1]["tokens"] == STEPS * 2 * 2 * 32
    assert table["curve"][-1]["held_out"] < table["curve"][0]["held_out"]
