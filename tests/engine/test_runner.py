"""The standalone runner on a bundle made by ``edgec.export``: its output, and what it refuses."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.bundle.folder import open_bundle
from edgec.devices.qemu.emulator import qemu_line
from edgec.engine.compile.abi import ARM64
from edgec.engine.compile.build import build_runner
from edgec.runtime_py.adapters.make import make_adapter
from edgec.runtime_py.decoding.forced_text import log_softmax
from edgec.runtime_py.decoding.sampling import Sampler, Sampling
from edgec.runtime_py.generation.generate import stream_tokens
from edgec.runtime_py.sessions.session import Session
from tests.runtime_py.adapters.loras import EVERY, pairs, write_lora

PROMPT = [1, *range(30, 70)]
NEW_TOKENS = 12
# The same kernels, loaded by another program.
SAME_KERNELS = 1e-6


def said(bundle: Path, count: int) -> list[int]:
    """The greedy tokens after the prompt, from Python."""
    return list(islice(stream_tokens(Session(bundle), PROMPT, Sampler(Sampling())), count))


def run_runner(*arguments: object, stdin: str = "", limit_bytes: int | None = None) -> list[dict[str, Any]]:
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes)) if limit_bytes else None
    line = [str(build_runner().runner), *map(str, arguments)]
    done = subprocess.run(line, input=stdin, capture_output=True, text=True, check=False, preexec_fn=limit)
    assert done.returncode == 0, done.stderr
    return [json.loads(row) for row in done.stdout.splitlines()]


def test_the_runner_says_what_python_says(tiny_bundle: Path, tmp_path: Path) -> None:
    wanted = said(tiny_bundle, NEW_TOKENS)
    arguments = ("--bundle", tiny_bundle, "--packed", tmp_path, "--tokens", ",".join(map(str, PROMPT)))
    loaded, generated = run_runner(*arguments, "--new-tokens", NEW_TOKENS)
    assert generated["tokens"] == wanted
    assert len(generated["token_ms"]) == NEW_TOKENS - 1 and generated["ttft_ms"] > 0
    assert loaded["packed"] == "written" and loaded["peak_rss_bytes"] > loaded["anonymous_bytes"] > 0


def test_the_runner_serves_requests_and_scores_teacher_forced(tiny_bundle: Path, tmp_path: Path) -> None:
    logits = tmp_path / "logits.f32"
    ids = " ".join(map(str, PROMPT))
    lines = f"generate 3 {ids}\nscore {ids}\ngenerate 3 {ids}\n"
    _, first, scored, again = run_runner("--bundle", tiny_bundle, "--logits", logits, stdin=lines)
    session = Session(tiny_bundle)
    rows = np.concatenate([session.forward(PROMPT[i : i + 16], i, range(len(PROMPT[i : i + 16]))) for i in (0, 16, 32)])
    assert scored["top1"] == rows.argmax(-1).tolist()
    wanted = log_softmax(rows)[np.arange(len(PROMPT) - 1), PROMPT[1:]]
    np.testing.assert_allclose(scored["logprobs"], wanted, atol=SAME_KERNELS)
    np.testing.assert_allclose(np.fromfile(logits, np.float32).reshape(rows.shape), rows, atol=SAME_KERNELS)
    assert first["tokens"] == again["tokens"] == said(tiny_bundle, 3)


def test_the_runner_replays_a_prompt_and_what_was_decoded_after_it(tiny_bundle: Path, tmp_path: Path) -> None:
    logits = tmp_path / "logits.f32"
    line = f"replay 38 {' '.join(map(str, PROMPT))}\n"
    _, replayed = run_runner("--bundle", tiny_bundle, "--logits", logits, stdin=line)
    session = Session(tiny_bundle)
    steps = [session.prefill(PROMPT[:38], 0), *(session.forward([PROMPT[i]], i, [0])[0] for i in range(38, 41))]
    assert replayed["top1"] == [int(row.argmax()) for row in steps]
    np.testing.assert_allclose(np.fromfile(logits, np.float32).reshape(4, -1), steps, atol=SAME_KERNELS)


def test_the_runner_makes_the_calls_it_is_given(tiny_bundle: Path, tmp_path: Path) -> None:
    logits = tmp_path / "logits.f32"
    calls = [(0, 20, 3), (20, 5, 1), (25, 1, 1), (0, 7, 7)]  # The last one begins again.
    words = " ".join(str(number) for call in calls for number in call)
    line = f"feed 4 {words} {' '.join(map(str, PROMPT))}\n"
    _, fed = run_runner("--bundle", tiny_bundle, "--logits", logits, stdin=line)
    session = Session(tiny_bundle)
    wanted = [session.forward(PROMPT[s : s + n], s, range(n - rows, n)).copy() for s, n, rows in calls]
    rows = np.concatenate(wanted)
    assert fed["event"] == "fed" and fed["top1"] == rows.argmax(-1).tolist()
    np.testing.assert_allclose(np.fromfile(logits, np.float32).reshape(rows.shape), rows, atol=SAME_KERNELS)


def test_the_runner_stays_on_the_cpus_it_is_given(tiny_bundle: Path) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    arguments = ("--bundle", tiny_bundle, "--tokens", "1,2,3")
    loaded, _ = run_runner(*arguments, "--cpus", allowed[-1], "--threads", 2)
    assert loaded["cpus"] == [allowed[-1]] and run_runner(*arguments)[0]["cpus"] == allowed


def test_the_runner_makes_a_missing_folder_of_packed_weights(tiny_bundle: Path, tmp_path: Path) -> None:
    arguments = ("--bundle", tiny_bundle, "--packed", tmp_path / "new" / "packed", "--tokens", "1,2,3")
    assert [run_runner(*arguments)[0]["packed"] for _ in range(2)] == ["written", "mapped"]


@pytest.fixture(scope="module")
def adapter(four_bits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runner-adapter")
    lora = write_lora(folder / "lora", pairs(EVERY), base_model_name_or_path="m\u00f6del")
    return make_adapter(four_bits, lora, folder / "a.adapter").path


def adapted(bundle: Path, adapter: Path) -> list[int]:
    session = Session(bundle)
    session.adapter = adapter
    return list(islice(stream_tokens(session, PROMPT, Sampler(Sampling())), NEW_TOKENS))


def test_the_runner_adds_an_adapter_as_python_does(four_bits: Path, adapter: Path) -> None:
    arguments = ("--bundle", four_bits, "--tokens", ",".join(map(str, PROMPT)), "--new-tokens", NEW_TOKENS)
    plain, under = (run_runner(*arguments, *more)[1]["tokens"] for more in ((), ("--adapter", adapter)))
    assert plain == said(four_bits, NEW_TOKENS) and under == adapted(four_bits, adapter) != plain


@pytest.mark.slow
@pytest.mark.skipif(
    not (shutil.which("aarch64-linux-gnu-g++") and shutil.which("qemu-aarch64")), reason="no cross compiler or qemu"
)
def test_the_phone_s_runner_adds_an_adapter_as_python_does(four_bits: Path, adapter: Path) -> None:
    words = ["--bundle", four_bits, "--adapter", adapter, "--threads", 1, "--tokens", ",".join(map(str, PROMPT))]
    line = qemu_line(build_runner(abi=ARM64), [*map(str, words), "--new-tokens", str(NEW_TOKENS)])
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[1])["tokens"] == adapted(four_bits, adapter)


def test_the_runner_refuses_an_adapter_that_does_not_fit(four_bits: Path, adapter: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.adapter"
    damaged.write_bytes(adapter.read_bytes()[:-1])
    manifest = (four_bits / "manifest.json").read_text()
    digest = next(file.sha256 for file in open_bundle(four_bits).manifest.files if file.path == "model.pte")
    shutil.copy(four_bits / "model.pte", tmp_path)
    (tmp_path / "manifest.json").write_text(manifest.replace(digest, "0" * 64))
    cases = {
        "it has other bytes than its tensors need": (four_bits, damaged),
        "it cannot be read": (four_bits, tmp_path),
        "made for the artifact": (tmp_path, adapter),
    }
    for why, (bundle, file) in cases.items():
        line = [str(build_runner().runner), "--bundle", str(bundle), "--adapter", str(file), "--tokens", "1"]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.returncode == 1 and done.stderr.startswith("error: "), done.stderr
        assert why in done.stderr, done.stderr


MANIFESTS = {
    "a long name": ('"artifact": "model.pte"', '"artifact": "' + "m" * 3_000_000 + '"'),
    "a long digest": ('"sha256": "', '"sha256": "' + "0" * 3_000_000),
    "a path outside": ('"artifact": "model.pte"', '"artifact": "../model.pte"'),
    "an escaped name": ('"artifact": "model.pte"', '"artifact": "model\\u002epte"'),
    "a context beyond 64 bits": ('"context": 512', '"context": 99999999999999999999'),
    "no end": ('"artifact": "model.pte"', '"artifact": "model.pte'),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_runner_refuses_a_manifest_that_makes_no_sense(tiny_bundle: Path, tmp_path: Path, name: str) -> None:
    text = (tiny_bundle / "manifest.json").read_text()
    before, after = MANIFESTS[name]
    assert before in text
    (tmp_path / "manifest.json").write_text(text.replace(before, after))
    line = [str(build_runner().runner), "--bundle", str(tmp_path), "--tokens", "1"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.startswith("error: ")


@pytest.mark.parametrize(
    ("arguments", "stdin", "why"),
    [
        ((), "", "--bundle or --model"),
        (("--model", "nowhere.pte"), "", "cannot be read"),
        (("--model", "nowhere.pte", "--adapter", "a.adapter"), "", "--adapter needs --bundle"),
        (("--bundle", "BUNDLE", "--adapter", "nowhere.adapter", "--tokens", "1"), "", "it cannot be read"),
        (("--bundle", "nowhere"), "", "not an edgec bundle"),
        (("--bundle", "BUNDLE", "--tokens", "1,x"), "", "not a whole number"),
        (("--bundle", "BUNDLE", "--frobnicate"), "", "--frobnicate"),
        (("--bundle", "BUNDLE", "--audio", "a.wav", "--schema", "person"), "", "neither --score nor --audio"),
        (("--bundle", "BUNDLE"), "dance 1 2\n", "a request is"),
        (("--bundle", "BUNDLE", "--tokens", ",".join(["5"] * 600)), "", "context of 512"),
        (("--bundle", "BUNDLE"), "generate 2\n", "needs a prompt"),
        (("--bundle", "BUNDLE"), "replay 4 1 2 3\n", "a replay's prompt"),
        (("--bundle", "BUNDLE"), "feed 1 0 4 1 1 2 3\n", "a call lies outside the tokens"),
        (("--bundle", "BUNDLE"), "feed 1 2147483647 2147483647 1 1 2 3\n", "a call lies outside the tokens"),
        (("--bundle", "BUNDLE"), "feed 1 2 2 1 1 2 3\n", "a call lies outside the tokens"),
        (("--bundle", "BUNDLE"), "feed 1 0 2 3 1 2 3\n", "its rows outside the call"),
        (("--bundle", "BUNDLE"), "feed 1 0 2 0 1 2 3\n", "its rows outside the call"),
        (("--bundle", "BUNDLE"), "feed 1 0 200 1 " + "5 " * 200 + "\n", "128"),
        (("--bundle", "BUNDLE"), "feed 9 0 2 1 1 2 3\n", "lacks a number"),
        (("--bundle", "BUNDLE", "--cpus", "99999"), "", "no CPU 99999"),
        (("--bundle", "BUNDLE", "--cpus", "1000"), "", "refused by the system"),
        (("--bundle", "BUNDLE"), "generate 9223372036854775807 1\n", "more than 2147483647"),
        (("--bundle", "BUNDLE"), "generate 2147483647 1 2\n", "than any context has"),
        (("--bundle", "BUNDLE"), "generate 99999999999999999999 1\n", "more than"),
        (("--bundle", "BUNDLE"), "generate\n", "lacks a number"),
        (("--bundle", "BUNDLE"), "pause 9223372036854775807\n", "more than"),
        (("--bundle", "BUNDLE"), "x" * 1_000_000 + "\n", "xxx..."),
        (("--bundle", "BUNDLE", "--threads", "4294967297"), "", "more than 1024"),
        (("--bundle", "BUNDLE", "--new-tokens", "-1", "--tokens", "1"), "", "not a whole number"),
        (("--bundle", "BUNDLE", "--tokens", "-1"), "", "not a whole number"),
        (("--bundle", "BUNDLE", "--tokens", "4294967297"), "", "the tokens lie outside"),
        (("--bundle", "BUNDLE", "--packed", "/proc/nowhere"), "", "cannot be made"),
        (("--model", "model.pte", "--packed", "/proc/nowhere/model.packed"), "", "cannot be made"),
    ],
)
def test_the_runner_refuses(tiny_bundle: Path, arguments: tuple[str, ...], stdin: str, why: str) -> None:
    line = [str(build_runner().runner), *(str(tiny_bundle) if word == "BUNDLE" else word for word in arguments)]
    done = subprocess.run(line, input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and why in done.stderr


def test_of_two_first_loads_at_once_one_packs_and_the_other_maps(tiny_bundle: Path, tmp_path: Path) -> None:
    line = [str(build_runner().runner), "--bundle", str(tiny_bundle), "--packed", str(tmp_path), "--tokens", "1,2,3"]
    pair = [subprocess.Popen(line, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    rows = [[json.loads(row) for row in process.communicate()[0].splitlines()] for process in pair]
    assert sorted(loaded["packed"] for loaded, _ in rows) == ["mapped", "written"]
    assert rows[0][1]["tokens"] == rows[1][1]["tokens"]


def test_without_room_or_permission_weights_are_packed_in_memory(tiny_bundle: Path, tmp_path: Path) -> None:
    tokens = ",".join(map(str, PROMPT))
    full = run_runner("--bundle", tiny_bundle, "--packed", tmp_path, "--tokens", tokens, limit_bytes=8192)
    nowhere = run_runner("--bundle", tiny_bundle, "--packed", "/proc", "--tokens", tokens)
    wanted = run_runner("--bundle", tiny_bundle, "--packed", tmp_path, "--tokens", tokens)
    assert [rows[0]["packed"] for rows in (full, nowhere, wanted)] == ["in memory", "in memory", "written"]
    assert full[1]["tokens"] == nowhere[1]["tokens"] == wanted[1]["tokens"]
    assert not [path for path in tmp_path.iterdir() if path.suffix not in (".packed", ".lock")]
