"""Trained networks of packages under MIT, BSD or Apache-2.0: exported by default, no user notices the difference."""

from __future__ import annotations

import os
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import edgec
from benchmarks.real_modules import NETWORKS, judged
from benchmarks.real_networks.made_inputs import RATE, melody
from benchmarks.real_networks.network import FOLDER, seeded
from benchmarks.real_networks.sounds import heard, voice_activity
from edgec.bundle.folder import read_manifest

pytestmark = [pytest.mark.real_model, pytest.mark.slow, pytest.mark.timeout(1800)]
if FOLDER not in os.environ:
    pytestmark.append(
        pytest.mark.skip(reason=f"{FOLDER} names no folder of unzipped packages (benchmarks/real_modules.py)")
    )
TARGETS = ("host", "android-cpu", "iphone", "onnx")
CELLS = [(name, target) for name in NETWORKS for target in TARGETS]


@pytest.mark.parametrize(("name", "target"), CELLS)
def test_the_default_export_answers_as_the_network(name: str, target: str, tmp_path: Path) -> None:
    found, network = judged(name, target, tmp_path, held_out=16), NETWORKS[name]
    assert max(found.gaps) <= network.limit


@pytest.mark.parametrize("name", NETWORKS)
def test_inputs_move_the_answer_by_more_than_the_limit(name: str) -> None:
    """Else the comparison could not fail."""
    network = NETWORKS[name]
    module, drawn = network.make()[0], seeded(1)
    with torch.no_grad():
        answers = [module(*network.drawn(drawn)) for _ in range(8)]
    rows = [(each,) if isinstance(each, torch.Tensor) else each for each in answers]
    assert max(network.unit[1](rows[0], other) for other in rows[1:]) > 3 * network.limit


def listening() -> tuple[Any, ...]:
    """Silero's network, and how a recording becomes its input: 512 samples after the 64 before them."""
    return (*voice_activity(), {"x": {"kind": "sound", "rate": RATE, "step": 512}})


def test_recordings_say_what_a_network_hears(tmp_path: Path) -> None:
    """Silero judged on WAV files, beside the network on voices that are none of them."""
    (tmp_path / "voices").mkdir()
    drawn = seeded(7)
    for index in range(8):
        loud = 0.2 + 5 * float(torch.rand((), generator=drawn))
        samples = (loud * melody(drawn, 8192)).clamp(-1, 1) * 32767
        with wave.open(str(tmp_path / "voices" / f"{index}.wav"), "wb") as stream:
            stream.setnchannels(1)
            stream.setsampwidth(2)
            stream.setframerate(RATE)
            stream.writeframes(samples.numpy().astype("<i2").tobytes())
    place = f"{__name__}:listening"
    bundle = edgec.export(place, target="host", inputs=tmp_path / "voices", out=tmp_path / "x.edgec")
    assert read_manifest(bundle).judged_on == "judged on 64 of 120 given inputs (voices)"
    module, loaded, given = voice_activity()[0], edgec.load(bundle), seeded(8)
    for _ in range(16):
        x, state = heard(given)
        got, _state = loaded.run(x=x.numpy(), state=state.numpy()).values()
        with torch.no_grad():
            wanted = module(x, state)[0]
        assert 100 * float(np.abs(got - wanted.numpy()).max()) <= NETWORKS["voice_activity"].limit
