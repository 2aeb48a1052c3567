"""The methods that ExecuTorch's speech runner calls say what edgec's three methods say, over the same weights."""

from __future__ import annotations

import platform
from functools import lru_cache
from pathlib import Path

import pytest
import torch

from edgec.backends.cpu.linear.layout import BlockRows
from edgec.backends.cpu.lower import lower_methods
from edgec.backends.cpu.speech_runner import with_speech_decoder
from edgec.backends.cpu.text_runner import RunnerFacts
from edgec.bundle.pte_layout import method_names, read_layout
from edgec.runtime_py.engines.open_artifact import TorchMethod
from tests.encoder_decoder_methods import LIMITS, rewritten
from tests.encoder_decoders import VOCABULARY, example_source

pytestmark = pytest.mark.long
FACTS = RunnerFacts(LIMITS.prefill_chunk, LIMITS.context, VOCABULARY, begin=1, ends=(2,))
KERNELS = ["edgec", pytest.param("standard", marks=pytest.mark.slow)]
# Measured: 35 kB of instructions beside 327, with standard kernels 52 beside 355.
MOST_BYTES = 56 << 10


@lru_cache(maxsize=4)
def lowered(kernels: str, told: bool) -> tuple[bytes, tuple[str, ...]]:
    """A Whisper's artifact, and the kernels that it needs."""
    rows = BlockRows.of(platform.machine()) if kernels == "edgec" else None
    made = lower_methods(rewritten("whisper", kernels), block_rows=rows, runner=FACTS if told else None)
    return made.artifact, made.operators


def written(folder: Path, kernels: str = "edgec", told: bool = True) -> Path:
    (path := folder / f"{kernels}-{told}.pte").write_bytes(lowered(kernels, told)[0])
    return path


@pytest.mark.parametrize("kernels", KERNELS)
def test_both_ways_say_the_same_bits_token_by_token(kernels: str, tmp_path: Path) -> None:
    artifact, sound = written(tmp_path, kernels), example_source("whisper")
    encode, cross, forward = (TorchMethod(artifact, name) for name in ("encode", "cross", "forward"))
    encoder, decoder = TorchMethod(artifact, "encoder"), TorchMethod(artifact, "text_decoder")
    (states,), (same,) = encode([sound]), encoder([sound])
    assert torch.equal(states, same) and states.shape == (1, 50, 32)
    memory = cross([states])
    for place, token in enumerate([3, 7, 9, 80, 41, 5]):
        given, position = torch.tensor([[token]]), torch.tensor([place])
        (own,) = forward([given, position, *memory, torch.tensor([0])])
        (logits,) = decoder([given, states, position])
        assert logits.shape == (1, 1, VOCABULARY) and torch.equal(logits, own)


def test_the_methods_take_what_the_runner_gives_and_say_one_tensor(tmp_path: Path) -> None:
    from executorch.extension.pybindings import portable_lib

    program = portable_lib._load_program(str(written(tmp_path)))
    encoder, decoder = (program.method_meta(name) for name in ("encoder", "text_decoder"))
    sizes = [tuple(decoder.input_tensor_meta(index).sizes()) for index in range(decoder.num_inputs())]
    # Of tokens and positions the program states the most of a call.
    chunk = LIMITS.prefill_chunk
    assert sizes == [(1, chunk), (1, 50, 32), (chunk,)] and decoder.num_outputs() == 1
    assert tuple(encoder.input_tensor_meta(0).sizes()) == (1, 16, 100)
    assert encoder.num_inputs() == encoder.num_outputs() == 1


@pytest.mark.parametrize("kernels", KERNELS)
def test_the_weights_lie_in_the_artifact_once(kernels: str, tmp_path: Path) -> None:
    alone, both = (written(tmp_path, kernels, told) for told in (False, True))
    one, two = (read_layout(path) for path in (alone, both))
    assert sorted(run.sha256 for run in one.stored) == sorted(run.sha256 for run in two.stored)
    assert 0 < both.stat().st_size - alone.stat().st_size < MOST_BYTES
    assert set(method_names(both)) - set(method_names(alone)) == {"encoder", "text_decoder", *FACTS.constants}


@pytest.mark.parametrize("kernels", KERNELS)
def test_standard_kernels_need_no_operator_of_edgec(kernels: str) -> None:
    operators = lowered(kernels, True)[1]
    assert any(name.startswith("edgec::") for name in operators) == (kernels == "edgec")


@pytest.mark.parametrize("family", ["t5", pytest.param("moonshine", marks=pytest.mark.slow)])
def test_models_that_read_text_or_samples_stay_as_they_are(family: str) -> None:
    programs = rewritten(family)
    methods = {name: (program.graph, program.interface) for name, program in programs.items()}
    assert set(with_speech_decoder(methods)) == {"encode", "cross", "forward"}
