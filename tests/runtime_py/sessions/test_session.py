from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

import edgec
from edgec.bundle.entry_points import MethodInfo, TensorInfo
from edgec.bundle.folder import open_bundle
from edgec.errors import InputError
from edgec.runtime_py.console.run import RunOptions, run_bundle
from edgec.runtime_py.engines.executor import Executor
from edgec.runtime_py.evaluate.evaluate import evaluate
from edgec.runtime_py.model import Model
from edgec.runtime_py.sessions.session import Session
from tests.runtime_py.tiny_decoder import CHUNK, CONTEXT, ROWS, VOCAB, lower, manifest

# Another summation order in float32 over hidden size 32: about 1e-6 at logits of order 1.
TOLERANCE = 2e-5
PROMPT = [1, *range(30, 70)]


@pytest.fixture(scope="module")
def session(tiny_bundle: Path) -> Session:
    return Session(tiny_bundle)


@pytest.fixture(scope="module")
def reference(tiny_model_dir: Path) -> np.ndarray:
    model = AutoModelForCausalLM.from_pretrained(tiny_model_dir, attn_implementation="eager")
    with torch.no_grad():
        result: np.ndarray = model(torch.tensor([PROMPT])).logits[0].numpy()
        return result


def test_rows_equal_the_float_model(session: Session, reference: np.ndarray) -> None:
    first = session.forward(PROMPT[:CHUNK], 0, range(8, 16))
    second = session.forward(PROMPT[CHUNK : 2 * CHUNK], CHUNK, (0, 15))
    assert first.shape == (8, VOCAB) and first.dtype == np.float32
    np.testing.assert_allclose(first, reference[8:16], atol=TOLERANCE)
    np.testing.assert_allclose(second, reference[[16, 31]], atol=TOLERANCE)


def test_long_prompt_in_chunks_equals_one_pass(session: Session, reference: np.ndarray) -> None:
    np.testing.assert_allclose(session.prefill(PROMPT, 0), reference[-1], atol=TOLERANCE)
    assert session.cache.tokens == PROMPT


def test_rewound_cache_equals_the_float_model(session: Session, reference: np.ndarray) -> None:
    session.prefill([*PROMPT[:20], 300, 301, 302], 0)
    assert session.reusable(PROMPT) == 20
    np.testing.assert_allclose(session.prefill(PROMPT[20:], 20), reference[-1], atol=TOLERANCE)


@pytest.mark.parametrize(
    ("tokens", "start", "rows", "code"),
    [
        ([5], CONTEXT, [0], "E150"),
        ([5] * 9, CONTEXT - 8, [0], "E150"),
        ([5] * (CHUNK + 1), 0, [0], "E152"),
        ([], 0, [0], "E152"),
        ([5] * CHUNK, 0, range(ROWS + 1), "E152"),
        ([5, 6], 0, [2], "E152"),
        ([5, 6], 0, [-1], "E152"),
        ([VOCAB], 0, [0], "E152"),
        ([-1], 0, [0], "E152"),
        ([5], 40, [0], "E153"),
        ([5], -1, [0], "E153"),
    ],
)
def test_calls_outside_the_contract_are_refused_before_execution(
    session: Session, tokens: list[int], start: int, rows: list[int], code: str
) -> None:
    session.prefill([1, 2, 3], 0)
    with pytest.raises(InputError) as error:
        session.forward(tokens, start, rows)
    assert error.value.code == code
    assert session.cache.tokens == [1, 2, 3]


def test_prompt_beyond_the_context_executes_nothing(session: Session) -> None:
    session.prefill([1, 2, 3], 0)
    with pytest.raises(InputError, match="E150"):
        session.prefill([4] * (CONTEXT + 1), 0)
    assert session.cache.tokens == [1, 2, 3]


class _Interrupted:
    """Ctrl-C during a native call: Python learns of it when the call has returned and has written the state."""

    def __init__(self, executor: Executor) -> None:
        self._executor, self.state = executor, executor.state

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        self._executor.run(inputs)
        raise KeyboardInterrupt

    lend = run


@pytest.mark.parametrize(("tokens", "start"), [([300, 301, 302], 5), ([300], len(PROMPT)), ([300, 301], 0)])
def test_an_interrupted_call_leaves_no_false_record(
    session: Session, monkeypatch: pytest.MonkeyPatch, tokens: list[int], start: int
) -> None:
    wanted = session.prefill(PROMPT, 0)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(session, "_executor", _Interrupted(session._executor))
        session.forward(tokens, start, (0,))
    assert session.cache.tokens == PROMPT[:start]
    reused = session.reusable(PROMPT)
    assert reused == min(start, len(PROMPT) - 1)
    np.testing.assert_allclose(session.prefill(PROMPT[reused:], reused), wanted, atol=TOLERANCE)


def test_threads_are_set_and_checked(tiny_bundle: Path) -> None:
    assert Session(tiny_bundle, threads=1).threads == 1
    assert torch.get_num_threads() == 1, "two pools of different sizes make attention spin"
    for count in (0, 1025, 1 << 32):
        with pytest.raises(InputError, match="E156"):
            Session(tiny_bundle, threads=count)


def test_threads_may_change_while_another_thread_generates(tiny_bundle: Path) -> None:
    session, before = Session(tiny_bundle, threads=1), Session(tiny_bundle).threads
    wanted, generated, done = session.prefill(PROMPT, 0), [], threading.Event()

    def generate() -> None:
        while not done.is_set():
            generated.append(session.prefill(PROMPT, 0))

    worker = threading.Thread(target=generate, daemon=True)
    worker.start()
    try:
        for count in (2, 1) * 5:
            assert edgec.load(tiny_bundle, threads=count).session.threads == count
    finally:
        done.set()
        worker.join(60)
        Session(tiny_bundle, threads=before)
    assert not worker.is_alive() and generated
    np.testing.assert_allclose(generated, np.stack([wanted] * len(generated)), atol=TOLERANCE)


@pytest.mark.long
def test_an_artifact_that_is_no_program_is_refused(tmp_path: Path) -> None:
    from edgec.bundle.folder import write_bundle

    write_bundle(tmp_path / "bad.edgec", manifest(), {"model.pte": b"not a program" * 100})
    with pytest.raises(InputError, match="E157"):
        edgec.load(tmp_path / "bad.edgec")


class _Affine(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(2 * x - y), x + y


@pytest.fixture(scope="module")
def affine(tmp_path_factory: pytest.TempPathFactory) -> Model:
    from edgec.bundle.folder import write_bundle

    folder = tmp_path_factory.mktemp("affine") / "affine.edgec"
    tensors = {name: TensorInfo(name=name, dtype="float32", shape=[2, 3]) for name in ("x", "y", "a", "b")}
    method = MethodInfo(name="forward", inputs=[tensors["x"], tensors["y"]], outputs=[tensors["a"], tensors["b"]])
    artifact = lower(_Affine(), (torch.ones(2, 3), torch.ones(2, 3)))
    write_bundle(folder, manifest(methods=[method], limits=None), {"model.pte": artifact})
    return edgec.load(open_bundle(folder))


@pytest.mark.long
def test_a_model_that_is_no_decoder_runs_by_names(affine: Model) -> None:
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.full((2, 3), 4, dtype=np.float32)
    out = affine.run(y=y, x=x)
    np.testing.assert_allclose(out["a"], np.maximum(2 * x - y, 0), atol=1e-6)
    np.testing.assert_allclose(out["b"], x + y, atol=1e-6)


@pytest.mark.parametrize(
    "inputs",
    [
        {"x": np.ones((2, 3), np.float32)},
        {"x": np.ones((2, 3), np.float64), "y": np.ones((2, 3), np.float32)},
        {"x": np.ones((2, 4), np.float32), "y": np.ones((2, 3), np.float32)},
    ],
)
def test_wrong_names_shapes_and_dtypes_are_refused(affine: Model, inputs: dict[str, np.ndarray]) -> None:
    with pytest.raises(InputError, match="E152"):
        affine.run(**inputs)


def test_each_kind_of_model_refuses_the_other_verb(affine: Model, tiny_bundle: Path) -> None:
    with pytest.raises(InputError, match="E155"):
        affine.generate("x")
    with pytest.raises(InputError, match="E155"):
        edgec.load(tiny_bundle).run(x=np.ones(1))


def test_commands_that_need_text_say_that_the_model_generates_none(affine: Model, tmp_path: Path) -> None:
    options = RunOptions(affine.bundle.path, "x", False, False, None, None, False, {})
    with pytest.raises(InputError, match="E155"):
        run_bundle(options)
    with pytest.raises(InputError, match="E155"):
        evaluate(affine.bundle.path, tmp_path / "never-read.txt")
