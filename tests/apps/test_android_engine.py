"""The engine that an Android app compiles: its CMake project built for 64-bit Arm, run under qemu, and checked."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import edgec
from edgec.apps.embed.embed import embed
from edgec.apps.embed.kotlin_text import package_name
from edgec.bundle.folder import Bundle, open_bundle
from edgec.bundle.golden import OutputVector, read_golden
from edgec.runtime_py.forced_text import forced_rows
from edgec.runtime_py.sessions.session import Session
from tests.apps.android_engine import BuiltEngine, build, lacking, replayed

pytestmark = [pytest.mark.slow, pytest.mark.skipif(lacking() is not None, reason=str(lacking()))]
EXAMPLE = Path(__file__).parents[2] / "examples" / "tiny-stories"
PAGE_BYTES = 16384
# Another order of addition; 8-bit activations that round the other way move a whole step, as golden vectors allow.
FLOAT_SHARE, QUANTISED_SHARE = 1e-5, 0.01


@dataclass(frozen=True)
class Compiled:
    """A bundle and the engine that its app compiles."""

    bundle: Bundle
    engine: BuiltEngine
    program: Path

    @property
    def golden(self) -> OutputVector:
        assert self.bundle.golden_path is not None
        return read_golden(self.bundle.golden_path).outputs[0]


def compiled(folder: Path, model: Path, recipe: str | None) -> Compiled:
    """Export for ``android-cpu``, embed, and compile what ``edgec embed`` wrote."""
    path = edgec.export(model, target="android-cpu", recipe=recipe, out=folder / "tiny.edgec")
    package = embed(path, "android", folder / "kit").package
    engine = build(folder / "kit", f"edgec_{package.module.rpartition('.')[2]}")
    bundle = open_bundle(path)
    return Compiled(bundle, engine, engine.program(folder, package_name(bundle.manifest.name)))


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """The example with the default recipe, whose matrices edgec's own kernels multiply: without XNNPACK."""
    return compiled(tmp_path_factory.mktemp("own"), EXAMPLE, None)


@pytest.fixture(scope="module")
def mixed(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """Random float weights, whose matrices XNNPACK multiplies beside edgec's operators."""
    return compiled(tmp_path_factory.mktemp("mixed"), tiny_folder, "float")


def expected(bundle: Bundle, tokens: list[int], prompt: int) -> NDArray[np.float32]:
    """The Python runtime's logits after the prompt and each later token."""
    return np.concatenate([rows for _, rows in forced_rows(Session(bundle.path), tokens)])[prompt - 1 :]


def assert_golden(rows: NDArray[np.float32], golden: OutputVector) -> None:
    """Assert that the likeliest token is the golden one wherever its lead exceeds the vector's tolerance."""
    sure = np.array(golden.margins) > golden.tolerance
    assert sure.any()
    likeliest = rows.argmax(-1)[: len(golden.continuation_ids)]
    assert (likeliest == np.array(golden.continuation_ids))[sure].all()


@pytest.mark.parametrize("cpu", ["cortex-a76", "cortex-a53", "max,sve=off,sme=off"])
def test_the_compiled_engine_replays_the_golden_tokens(own: Compiled, cpu: str) -> None:
    """Dotprod, neither, i8mm: one library chooses its kernels on the processor."""
    golden = own.golden
    tokens = [*golden.prompt_ids, *golden.continuation_ids]
    through_c, through_jni, _ = replayed(own.engine, own.program, own.bundle, tokens, len(golden.prompt_ids), cpu)
    assert_golden(through_c, golden)
    # The same library on the same tokens.
    np.testing.assert_array_equal(through_jni, through_c)
    wanted = expected(own.bundle, tokens, len(golden.prompt_ids))
    np.testing.assert_allclose(through_c, wanted, atol=QUANTISED_SHARE * np.abs(wanted).max())


def test_a_library_with_xnnpack_says_what_python_says(mixed: Compiled) -> None:
    tokens = [1, *range(30, 200)]
    through_c, through_jni, _ = replayed(mixed.engine, mixed.program, mixed.bundle, tokens, 160)
    wanted = expected(mixed.bundle, tokens, 160)
    np.testing.assert_allclose(through_c, wanted, atol=FLOAT_SHARE * np.abs(wanted).max())
    np.testing.assert_array_equal(through_jni, through_c)
    golden = mixed.golden
    tokens = [*golden.prompt_ids, *golden.continuation_ids]
    rows, _, _ = replayed(mixed.engine, mixed.program, mixed.bundle, tokens, len(golden.prompt_ids))
    assert_golden(rows, golden)


def test_states_can_be_saved_restored_and_emptied(own: Compiled) -> None:
    _, _, said = replayed(own.engine, own.program, own.bundle, [1, 5, 9, 13], 3)
    size = sum(state.bytes for state in own.bundle.manifest.states)
    bytes_, _, moved = said["state"].partition(" bytes")
    assert int(bytes_) >= size and moved == ", moved by a token"
    assert (said["restored"], said["reset"]) == ("the same", "zeros")


def test_failures_become_the_apps_exception(own: Compiled) -> None:
    _, _, said = replayed(own.engine, own.program, own.bundle, [1, 5, 9, 13], 3)
    failure = f"{package_name(own.bundle.manifest.name).replace('.', '/')}/EngineFailed: "
    told = {name: said[name] for name in ("absent", "token", "before", "beyond", "none", "closed")}
    assert all(text.startswith(failure) and len(text) > len(failure) for text in told.values()), told
    assert "/absent??.pte" in said["absent"] and "the model is closed" in said["closed"]
    assert said["after"] == "logits"


def test_the_library_suits_pages_of_16_kb_and_needs_xnnpack_only_where_it_is_used(
    own: Compiled, mixed: Compiled
) -> None:
    for built, used in ((own, False), (mixed, True)):
        library = built.engine.folder / f"lib{built.engine.name}.so"
        line = ["readelf", "-lWd", str(library)]
        told = subprocess.run(line, capture_output=True, text=True, check=True).stdout
        loads = [int(row.split()[-1], 16) for row in told.splitlines() if row.split()[:1] == ["LOAD"]]
        assert loads and min(loads) >= PAGE_BYTES
        assert ("executorch_backend_xnnpack" in told) == used
