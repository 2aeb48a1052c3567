"""Greedy texts beside llama.cpp's on the same file: equal, or parting where either program hesitates."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import edgec
from benchmarks.checkpoint_parts.gguf_types import by_package, write_types
from benchmarks.gguf_greedy import PROMPTS, Text, engine_texts, parting, prompts_of
from benchmarks.peers.environment import LLAMA
from edgec.exporter.sources.resolve import resolve

ROOT = Path(__file__).parents[2]
STORIES = ROOT / "examples" / "tiny-stories"
BUILD = ROOT / "build" / "bench"
INSTALLED = bool(os.environ.get("EDGEC_BENCH_PEERS")) or (BUILD / LLAMA.name / "installed.txt").is_file()
# Both programs round activations to 8 bits, each in its own way: measured up to 0.49 nats on SmolLM2-135M-Instruct.
HESITATES = 0.5


def test_a_parting_names_both_tokens_and_how_far_each_program_prefers_its_own() -> None:
    ours, theirs = Text([1, 2, 3], [0.5, 0.1, 2.0], [9, 4, 9]), Text([1, 4, 3], [0.5, 0.2, 2.0], [9, 2, 9])
    found = parting(ours, theirs)
    assert found is not None
    assert (found.place, found.ours, found.theirs, found.our_lead, found.their_lead) == (1, 2, 4, 0.1, 0.2)
    assert parting(ours, ours) is None


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLED, reason="llama-cpp-python is not installed (make bench, or EDGEC_BENCH_PEERS)")
def test_texts_are_llama_cpps_or_part_where_either_program_hesitates(tmp_path: Path) -> None:
    file = write_types(resolve(str(STORIES)), lambda name: "Q4_0", by_package, tmp_path / "stories.gguf")
    bundle = edgec.export(file, out=tmp_path / "stories.edgec", requantise="never")
    _, prompts, ends = prompts_of(file)
    theirs = engine_texts("benchmarks.peers.llama_cpp", LLAMA.python(BUILD), file, prompts, ends)
    ours = engine_texts("benchmarks.harness.edgec_engine", sys.executable, bundle, prompts, ends)
    partings = [parting(one, other) for one, other in zip(ours, theirs, strict=True)]
    assert len(partings) == len(PROMPTS) == 20
    assert partings.count(None) >= 10, partings
    doubtful = [min(found.our_lead, found.their_lead) < HESITATES for found in partings if found is not None]
    assert all(doubtful), partings
