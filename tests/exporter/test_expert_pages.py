"""Experts that no token chose are not read from the disk: pages of the mapped artifact, counted by the kernel."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path

import pytest

import edgec
from edgec.bundle.folder import Bundle, open_bundle
from edgec.bundle.pte_layout import NAMED, read_layout
from edgec.page_cache import drop_pages, resident_share
from edgec.runtime_py.sessions.session import Session
from tests.families import Family, save

# Matrices of megabytes, as in real models: what the system reads ahead beside them is a small part.
WIDE = Family(
    "olmoe",
    {
        "vocab_size": 512,
        "hidden_size": 1024,
        "intermediate_size": 512,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "head_dim": 128,
        "num_key_value_heads": 8,
        "num_experts": 16,
        "num_experts_per_tok": 2,
    },
)
# The engine's thread reads 2 MB at a time: a disk that takes longer for them than this is broken.
STILL_S = 0.5
BUDGETS = {"kl_mean": 50.0, "top1_agreement": 0.0}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = save(WIDE, tmp_path_factory.mktemp("experts") / "olmoe")
    return open_bundle(edgec.export(folder, out=folder.parent / "x.edgec", context=64, budgets=BUDGETS))


def read_for_one_token(bundle: Bundle, token: int) -> float:
    """Bytes of the artifact in memory after it was forgotten, loaded, and one token was fed."""
    artifact = bundle.artifact_path
    gc.collect()
    drop_pages(artifact)
    if resident_share(artifact) != 0.0:
        pytest.skip("this file system keeps its pages")
    session = Session(bundle)
    session.forward([token], 0, (0,))
    share = settled_share(artifact)
    del session
    return share * artifact.stat().st_size


def settled_share(path: Path) -> float:
    """Share of a file's pages in memory, 0..1, which did not change for ``STILL_S`` seconds."""
    share, before = resident_share(path), None
    while share != before:
        time.sleep(STILL_S)
        share, before = resident_share(path), share
    assert share is not None
    return share


def read_ahead_bytes(file: Path) -> int:
    """What is read around a place that is asked for: a page of 2 MB ahead of the kernels, or as the system is set."""
    device = file.stat().st_dev
    setting = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")
    return max(2 << 20, int(setting.read_text()) * 1024 if setting.exists() else 0)


@pytest.mark.slow
@pytest.mark.parametrize("token", [5, 99, 300])
def test_a_token_reads_little_more_than_its_active_bytes(bundle: Bundle, token: int) -> None:
    """Experts lie together, so what is read ahead of everything else ends in them at one border."""
    ledger = bundle.manifest.ledger
    assert ledger is not None and ledger.active_bytes is not None
    # 14 of 16 experts are not chosen; they are most of the file.
    assert ledger.active_bytes < 0.35 * ledger.artifact_bytes
    most = 1.15 * ledger.active_bytes + read_ahead_bytes(bundle.artifact_path)
    assert 0.7 * ledger.active_bytes < read_for_one_token(bundle, token) < most < 0.6 * ledger.artifact_bytes


@pytest.mark.slow
def test_experts_are_the_last_data_of_the_file(bundle: Bundle) -> None:
    ledger = bundle.manifest.ledger
    assert ledger is not None
    experts = sorted(row.bytes for row in ledger.rows if row.active == 2 / 16)
    named = [run.bytes for run in read_layout(bundle.artifact_path).stored if run.place == NAMED]
    assert len(experts) == 4 and sorted(named[-4:]) == experts


@pytest.mark.slow
def test_the_ledger_tells_active_from_all_bytes(bundle: Bundle) -> None:
    """By hand: 2 of 16 experts; a row of 512 of the embedding; everything else."""
    ledger = bundle.manifest.ledger
    assert ledger is not None
    experts = [row for row in ledger.rows if "experts" in row.name and row.bytes > 1 << 20]
    assert len(experts) == 4 and all(row.active == 2 / 16 for row in experts)
    # Up: 16 experts of 2 x 512 rows on 1024; down: of 1024 rows on 512. 4 bits, and a bfloat16 scale for 32 of them;
    # 4 bytes a row for its sum.
    up, down = 16 * 1024 * (1024 * 4.5 / 8 + 4), 16 * 1024 * (512 * 4.5 / 8 + 4)
    assert sorted(row.bytes for row in experts) == [down, down, up, up]
    rest = sum(row.bytes for row in ledger.rows) - 2 * (up + down)
    table = next(row for row in ledger.rows if "embed_tokens" in row.name and row.active < 1)
    assert table.active == 1 / 512
    assert ledger.active_bytes == pytest.approx(rest - table.bytes * 511 / 512 + 2 * (up + down) / 8, abs=600)
