"""A function that reads no tokens beside a decoder's: in the same package, or in one of its own before the parts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from edgec.backends.coreml import mlpackage
from edgec.backends.coreml.interpreter import load_package
from edgec.errors import InputError
from edgec.exporter.capture.module import capture_module
from edgec.ir.memory_inputs import RememberingMethods
from edgec.ir.program import Program
from edgec.ir.static_methods import GraphMethods, run_static
from edgec.passes.static.parts.cut_model import stored_sizes
from tests.passes.static.test_static_memory import PLAN as SPOKEN_PLAN
from tests.passes.static.test_static_memory import TOKENS as SPOKEN
from tests.passes.static.test_static_memory import fixed_methods, source_memory_of
from tests.passes.static.test_static_methods import passes, relative
from tests.passes.static_methods import PLAN, cached, methods, reference, tokens

TILE = torch.linspace(-1, 1, 8).reshape(1, 8)


def functions() -> dict[str, Program]:
    torch.manual_seed(0)
    encoder = capture_module(torch.nn.Linear(8, 4).eval(), (TILE,), input_names=["pixels"])
    return {"vision_encoder": encoder, **methods(cached("short llama"), passes("in_place"))}


@pytest.mark.slow
@pytest.mark.parametrize("cut", [False, True], ids=["one package", "several"])
def test_it_is_found_by_its_name_and_the_decoder_computes_what_it_did_alone(cut: bool, tmp_path: Path) -> None:
    programs, path = functions(), tmp_path / "model.mlpackage"
    whole = sum(stored_sizes(programs["prefill"]).values())
    mlpackage.lower(programs, path, lambda step, done, total: None, part_bytes=whole // 2 if cut else None)
    held = [set(load_package(package).functions) for package in mlpackage.packages(path)]
    assert held[0] == ({"vision_encoder"} if cut else {"vision_encoder", "prefill", "decode"})
    assert all(each == {"prefill", "decode"} for each in held[1:]) and (len(held) > 2) == cut
    (made,) = mlpackage.function_of(path, "vision_encoder").run({"pixels": TILE}).values()
    torch.testing.assert_close(made.float(), programs["vision_encoder"].graph(TILE)[0], atol=1e-2, rtol=0)
    assert relative(run_static(mlpackage.execute(path), tokens(), PLAN), reference("short llama")) < 3e-2
    with pytest.raises(InputError, match="E421"):
        mlpackage.function_of(path, "audio_encoder")


@pytest.mark.slow
def test_every_part_of_a_decoder_reads_its_keys_and_values_of_a_source(tmp_path: Path) -> None:
    programs, path, memory = (
        fixed_methods("whisper", "mlpackage"),
        tmp_path / "model.mlpackage",
        source_memory_of("whisper"),
    )
    whole = sum(stored_sizes(programs["prefill"]).values())
    mlpackage.lower(programs, path, lambda step, done, total: None, part_bytes=whole * 3 // 5)
    assert len(mlpackage.packages(path)) > 1
    text = SPOKEN[0].tolist()
    executed = run_static(RememberingMethods(mlpackage.execute(path), memory), text, SPOKEN_PLAN)
    wanted = run_static(RememberingMethods(GraphMethods(programs), memory), text, SPOKEN_PLAN)
    assert relative(executed, wanted) < 3e-2
