"""What libraries print is held back by the table alone, and nothing else is; clean processes show that it suffices."""

from __future__ import annotations

import builtins
import json
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from edgec.quiet import noise, quiet

ROOT = Path(__file__).parents[1]
TORCHAO = "Failed to load /x/torchao/_C_mxfp8.cpython-310-x86_64-linux-gnu.so: Could not load this library"


def heard(caplog: pytest.LogCaptureFixture, name: str, level: int, message: str) -> bool:
    caplog.clear()
    logging.getLogger(name).log(level, message)
    return bool(caplog.records)


def test_a_line_of_the_table_is_held_back_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    assert heard(caplog, "torchao", logging.WARNING, TORCHAO)
    with quiet():
        assert not heard(caplog, "torchao", logging.WARNING, TORCHAO)
        assert heard(caplog, "torchao", logging.ERROR, TORCHAO), "errors are never held back"
        assert heard(caplog, "torchao", logging.WARNING, "something new")
        assert heard(caplog, "mine", logging.WARNING, TORCHAO)
        assert heard(caplog, "root", logging.WARNING, "my own")
    assert heard(caplog, "torchao", logging.WARNING, TORCHAO)


def test_warnings_of_the_table_are_held_back_and_no_other() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with quiet():
            warnings.warn("`isinstance(treespec, LeafSpec)` is deprecated, use another", FutureWarning, stacklevel=1)
            warnings.warn_explicit("gone", DeprecationWarning, "x.py", 1, module="torch.jit._script")
            warnings.warn_explicit("mine", DeprecationWarning, "x.py", 1, module="torchvision_of_mine")
            warnings.warn("my own", UserWarning, stacklevel=1)
    assert [str(each.message) for each in seen] == ["mine", "my own"]


def state() -> tuple[list[Any], dict[str, list[Any]], int]:
    loggers = {each.logger: list(logging.getLogger(each.logger).filters) for each in noise().logs}
    return list(warnings.filters), loggers, logging.root.manager.disable


def test_everything_is_as_before_afterwards() -> None:
    before = state()
    with pytest.raises(ValueError, match="inside"), quiet(), quiet():
        raise ValueError("inside")
    assert state() == before
    with quiet():
        warnings.filterwarnings("ignore", message="the caller's own")
        own = warnings.filters[0]
    assert warnings.filters[0] == own and list(warnings.filters)[1:] == before[0]
    warnings.filters.remove(own)  # type: ignore[attr-defined]


def test_blocks_of_several_threads_end_with_the_last_one(caplog: pytest.LogCaptureFixture) -> None:
    before = state()
    with quiet():
        threads = [Thread(target=quiet()(lambda: None)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not heard(caplog, "torchao", logging.WARNING, TORCHAO)
    assert state() == before


def test_a_library_sets_up_no_logging_for_its_caller(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])
    level = logging.root.level
    with quiet():
        logging.basicConfig(level=logging.DEBUG)
        logging.getLogger("executorch.anything").info("for developers")
        logging.getLogger("mine").warning("my own")
        monkeypatch.setattr(logging.getLogger("with"), "handlers", [logging.NullHandler()])
        logging.getLogger("with.handler").warning("handled below")
    assert logging.root.handlers == [] and logging.root.level == level
    assert capsys.readouterr().err == "my own\n"


def test_every_row_says_why_and_is_narrow() -> None:
    import tomllib

    table = tomllib.loads((ROOT / "src" / "edgec" / "noise.toml").read_text())
    assert {"log", "warning", "native"} == set(table)
    for row in (*table["log"], *table["warning"]):
        assert row["why"] and set(row) <= {"logger", "category", "message", "module", "why"}
        assert "message" in row or "module" in row, "a whole logger or category is too much"
    assert all(issubclass(getattr(builtins, row["category"]), Warning) for row in table["warning"])
    assert all(row["why"] and set(row) == {"line", "why"} for row in table["native"])


API = """
import logging, sys, warnings
import edgec
warnings.warn("mine, before")
edgec.export(sys.argv[1], out=sys.argv[2], **eval(sys.argv[3]))
if "generate" in sys.argv:
    edgec.load(sys.argv[2]).generate("Once upon a time " * 3, max_new_tokens=2)
logging.getLogger("mine").warning("mine, logged")
warnings.warn("mine, after")
"""
FACTORY = """
import logging, warnings
import torch
def make():
    warnings.warn("mine, of the model", stacklevel=2)
    logging.getLogger("mine").warning("mine, logged by the model")
    return torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU()), (torch.randn(1, 32),)
"""


def stderr_of(arguments: Sequence[str], folder: Path) -> list[str]:
    """The lines on stderr of a clean process that ends well."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{folder}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [line for line in done.stderr.splitlines() if not line.startswith("edgec: ")]


def foreign(lines: Sequence[str]) -> list[str]:
    """Lines that are not of edgec's own: JSON where it was asked for, and the summary of the timings."""
    return [line for line in lines if not line.startswith(("{", "[measured"))]


@pytest.mark.slow
def test_python_prints_only_what_its_caller_says(tmp_path: Path) -> None:
    (tmp_path / "own_model.py").write_text(FACTORY)
    lines = stderr_of(["-c", API, "own_model:make", "out.edgec", "{'recipe': '8bit'}"], tmp_path)
    said = [line[line.index("mine, ") :] for line in lines if "mine, " in line]
    assert said == ["mine, before", "mine, of the model", "mine, logged by the model", "mine, logged", "mine, after"]
    # A warning of a module is followed by the line of its source.
    assert [line for line in lines if "mine, " not in line and not line.startswith("  ")] == []


FORMATS = {
    "host": {"target": "host"},
    "pte": {"target": "iphone"},
    "mlpackage": {"target": "iphone", "format": "mlpackage", "recipe": "lut2"},
    "aimodel": {"target": "iphone", "format": "aimodel"},
    "android": {"target": "android-cpu"},
    "onnx": {"target": "android-cpu", "format": "onnx"},
    "qnn": {"target": "snapdragon-8-elite", "format": "qnn"},
}
# Rounding moves random weights further than trained ones.
BUDGETS = {"kl_mean": 50.0, "top1_agreement": 0.0}
PACKAGES = {"aimodel": "coreai_torch", "onnx": "onnxscript", "qnn": "onnxruntime_qnn"}


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_no_format_lets_a_library_talk(name: str, tiny_folder: Path, tmp_path: Path) -> None:
    if name in PACKAGES:
        pytest.importorskip(PACKAGES[name])
    model = str(tiny_folder)
    asked = repr({**FORMATS[name], "budgets": BUDGETS})
    lines = stderr_of(["-c", API, model, "out.edgec", asked, *["generate"] * (name == "host")], tmp_path)
    assert [line for line in lines if "mine, " not in line] == []


@pytest.mark.slow
def test_no_command_lets_a_library_talk(tiny_folder: Path, tiny_bundle: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("Once upon a time there was a little girl called Lily. She had a red ball. " * 400)
    training = ["--steps", "2", "--batch", "1", "--length", "32"]
    commands = [
        ["export", str(tiny_folder), "--recipe", "8bit", "--context", "64", "--out", "host.edgec"],
        ["run", str(tiny_bundle), "-p", "Once upon", "--raw", "--max-new-tokens", "2"],
        ["verify", str(tiny_bundle)],
        ["bench", str(tiny_bundle), "--out", "bench.jsonl"],
        ["adapt", str(tiny_folder), "--recipe", "balanced2", "--text", str(text), *training],
        ["doctor"],
    ]
    for command in commands:
        lines = stderr_of(["-m", "edgec", *command, "--json"], tmp_path)
        assert foreign(lines) == [], command
        assert all(json.loads(line) for line in lines if line.startswith("{"))
