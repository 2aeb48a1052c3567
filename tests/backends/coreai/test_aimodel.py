"""Static methods as a Core AI model, executed by Apple's own runtime."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("coreai_torch") is None, reason="edgec[coreai] is not installed"),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama's two methods."""
    from edgec.backends.coreai import aimodel
    from tests.passes.static.test_static_methods import passes
    from tests.passes.static_methods import cached, methods

    path = tmp_path_factory.mktemp("coreai") / "model.aimodel"
    aimodel.lower(methods(cached("llama"), passes()), path, lambda step, done, total: None)
    return path


def test_methods_keep_the_captured_numbers_and_share_their_states(model: Path) -> None:
    from edgec.backends.coreai import aimodel
    from edgec.ir.static_methods import run_static
    from tests.passes.static.test_static_methods import relative
    from tests.passes.static_methods import PLAN, reference, tokens

    executed = aimodel.execute(model)
    assert isinstance(executed, aimodel.ModelMethods)
    assert set(executed.functions) == {"prefill", "decode"}
    # float16 against float32: 7e-3 of the largest logit at most over five families in Core ML.
    assert relative(run_static(executed, tokens(), PLAN), reference("llama")) < 3e-2
    assert set(executed.states) == {f"{role}_cache_{layer}" for role in ("key", "value") for layer in range(3)}


def test_the_resource_section_holds_the_weights(model: Path) -> None:
    from edgec.backends.coreai import aimodel
    from tests.passes.static_methods import cached

    layout = aimodel.layout(model)
    weights = sum(tensor.numel() * 2 for tensor in cached("llama").graph.parameters())
    assert layout.artifact_bytes == sum(file.stat().st_size for file in model.rglob("*") if file.is_file())
    assert sum(run.bytes for run in layout.stored) >= weights
