"""The phone's runner under qemu against the Python runtime, teacher-forced, on the same bundles."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import edgec
from edgec.bundle.folder import open_bundle
from edgec.cli.app import run_cli
from edgec.errors import InputError
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.recipe import Recipe
from edgec.runtime_py.decoding.forced_text import forced_rows
from edgec.runtime_py.sessions.session import Session
from edgec.runtime_py.verify.emulated import EmulatedRunner
from edgec.runtime_py.verify.verify import verify

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "tiny-stories"
PROBE = ROOT / "exporter" / "parity" / "probe_text.txt"
# Float logits move by rounding alone: NEON and AVX add in another order. The same share of the largest logit as golden
# vectors allow, which 8-bit activations need: one that rounds the other way moves a whole step.
SHARE = 0.01

pytestmark = pytest.mark.skipif(
    not (shutil.which("aarch64-linux-gnu-g++") and shutil.which("qemu-aarch64")), reason="no cross compiler or qemu"
)


def forced(bundle: Path, tokens: list[int]) -> NDArray[np.float32]:
    """The Python runtime's logits after every token, teacher-forced."""
    return np.concatenate([rows for _, rows in forced_rows(Session(bundle), tokens)])


def agree(emulated: NDArray[np.float32], wanted: NDArray[np.float32]) -> None:
    """Assert that the best token is the same wherever its lead exceeds epsilon, as most leads do."""
    assert emulated.shape == wanted.shape and np.isfinite(emulated).all()
    epsilon = SHARE * float(np.abs(wanted).max())
    best_two = np.sort(wanted, axis=-1)[:, -2:]
    sure = best_two[:, 1] - best_two[:, 0] > epsilon
    assert sure.mean() > 0.5
    assert (emulated.argmax(-1) == wanted.argmax(-1))[sure].all()


@pytest.mark.slow
def test_prompts_decoding_and_scoring_say_what_python_says(tiny_bundle: Path) -> None:
    tokens = [1, *range(30, 80)]
    wanted, runner = forced(tiny_bundle, tokens), EmulatedRunner.of_bundle(open_bundle(tiny_bundle))
    # Random weights, float arithmetic: another order of addition only.
    np.testing.assert_allclose(runner.score(tokens), wanted, atol=1e-5 * np.abs(wanted).max())
    np.testing.assert_allclose(runner.replay(tokens, 40), wanted[39:], atol=1e-5 * np.abs(wanted).max())


@pytest.mark.slow
def test_verify_replays_golden_vectors_under_qemu(tiny_bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["verify", str(tiny_bundle), "--device", "qemu", "--json"]) == 0
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["output vectors"]["status"] == "passed"
    assert "simulated" in checks["output vectors"]["detail"]


@pytest.mark.slow
def test_what_the_runner_refuses_is_reported(tiny_bundle: Path) -> None:
    with pytest.raises(InputError) as error:
        EmulatedRunner.of_bundle(open_bundle(tiny_bundle)).score([5] * 600)
    assert error.value.code == "E573" and "context of 512" in error.value.why


def test_other_devices_do_not_verify(tiny_bundle: Path) -> None:
    with pytest.raises(InputError) as error:
        verify(tiny_bundle, device="adb:0123")
    assert error.value.code == "E574"


SHARED = '[shared_kv]\nmode = "{mode}"\nboundary = 0.625\n'
# The oldest cores (no dotprod), the newest instructions that qemu multiplies right (i8mm), and SME, which is not used.
OTHER_CPUS = ("cortex-a53", "max,sve=off,sme=off", "max")
VARIANTS = ("float", "4bit", "int8-cache", "int4-cache", "shared-reuse", "shared-project")


def recipe(name: str, folder: Path) -> Recipe:
    """A named recipe, or 4bit with another cache or shared KV."""
    if name in ("float", "4bit"):
        return load_recipe(name)
    text = (ROOT / "exporter" / "recipes" / "named" / "4bit.toml").read_text()
    kind, _, what = name.partition("-")
    if what == "cache":
        text = text.replace('dtype = "float16"', f'dtype = "{kind}"')
    else:
        # The example was not trained with shared KV, so what it says changes; both executions must change alike.
        text += "\n" + SHARED.format(mode=what)
    (folder / f"{name}.toml").write_text(text)
    return load_recipe(folder / f"{name}.toml")


@pytest.fixture(scope="module", params=VARIANTS)
def example_bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("example")
    yield edgec.export(
        EXAMPLE, target="android-cpu", recipe=recipe(request.param, folder), out=folder / f"{request.param}.edgec"
    )


@pytest.mark.slow
def test_the_example_model_says_what_python_says(example_bundle: Path) -> None:
    """A trained model: float, 4-bit weights, integer caches, shared KV in both modes."""
    tokens = edgec.load(example_bundle).encode(PROBE.read_text())[:200]
    wanted, runner = forced(example_bundle, tokens), EmulatedRunner.of_bundle(open_bundle(example_bundle))
    agree(runner.score(tokens), wanted)
    agree(runner.replay(tokens, 150), wanted[149:])
    for cpu in OTHER_CPUS:
        agree(replace(runner, cpu=cpu).score(tokens), wanted)


@pytest.mark.slow
def test_sme_is_used_only_where_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The 4-bit recipe has 8-bit matrices, whose SME kernels in XNNPACK give other products under qemu."""
    out = tmp_path / "example.edgec"
    bundle = edgec.export(EXAMPLE, target="android-cpu", recipe="4bit", kernels="standard", out=out)
    tokens = [1, *range(30, 62)]
    wanted, runner = forced(bundle, tokens), EmulatedRunner.of_bundle(open_bundle(bundle), cpu="max")
    hidden = runner.score(tokens)
    agree(hidden, wanted)
    monkeypatch.setenv("EDGEC_SME", "1")
    assert not np.array_equal(runner.score(tokens), hidden), "the switch must reach XNNPACK"
