"""One export by edgec in a separate process, whose CPU time and peak memory are figures of the benchmark.

A job has ``config`` (config.json), ``recipe`` (name or TOML file), ``changes`` (fields of the recipe that differ),
``context`` and ``out``; ``tokenizer`` asks for one of made-up words. The weights are random, seeded.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness.jobs import status_bytes
from benchmarks.harness.models import SEED
from benchmarks.peers.tokenizer import write_tokenizer


def _source(job: Mapping[str, Any]) -> str:
    """The config, or a folder beside the bundle that has it and a tokenizer."""
    if not job.get("tokenizer"):
        return str(job["config"])
    folder, text = Path(job["out"]).parent / "source", Path(job["config"]).read_text()
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(text)
    write_tokenizer(folder, json.loads(text)["vocab_size"])
    return str(folder)


def export(job: Mapping[str, Any]) -> dict[str, Any]:
    """Export, and return the bytes of the artifact and of the matrices that one token reads, and the peak memory."""
    import torch

    import edgec
    from edgec.bundle.folder import open_bundle
    from edgec.exporter.recipes.file import load_recipe
    from edgec.exporter.recipes.recipe import with_changes

    torch.set_num_threads(1)
    recipe = with_changes(load_recipe(job["recipe"]), **job["changes"])
    out = edgec.export(
        _source(job),
        recipe=recipe,
        random_weights=True,
        context=job["context"],
        kernels=recipe.kernels,  # Asked for by name, an engine that is missing is an error.
        seed=SEED,
        out=job["out"],
        force=True,
    )
    bundle = open_bundle(out, check_files=False)
    rows = bundle.manifest.ledger.rows if bundle.manifest.ledger else []
    return {
        "file_bytes": bundle.artifact_path.stat().st_size,
        # A separate embedding table gives one row per token.
        "decode_bytes": sum(row.bytes for row in rows if "_embedding_" not in row.name),
        "peak_bytes": status_bytes("VmHWM"),
    }


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print("\n" + json.dumps(export(given)))
