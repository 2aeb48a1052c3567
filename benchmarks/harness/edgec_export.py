"""One export by edgec in a process of its own, whose CPU time and peak memory are figures of the benchmark.

A job says ``config`` (config.json), ``recipe`` (name or TOML file), ``changes`` (fields of the recipe that differ),
``context`` and ``out``. The weights are random, seeded.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from benchmarks.harness.models import SEED


def export(job: Mapping[str, Any]) -> dict[str, Any]:
    """Export; returns the artifact's bytes."""
    import torch

    import edgec
    from edgec.exporter.bundle.folder import open_bundle
    from edgec.exporter.recipes import load_recipe

    torch.set_num_threads(1)
    recipe = replace(load_recipe(job["recipe"]), **job["changes"])
    out = edgec.export(
        job["config"],
        recipe=recipe,
        random_weights=True,
        context=job["context"],
        seed=SEED,
        out=job["out"],
        force=True,
    )
    return {"file_bytes": open_bundle(out, check_files=False).artifact_path.stat().st_size}


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print("\n" + json.dumps(export(given)))
