"""The machine that a run takes place on, and the versions of everything that runs."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

from benchmarks.harness.results import Machine
from benchmarks.peers.environment import REQUIREMENTS
from edgec.devices.transport import DeviceFacts
from edgec.processor import processor_features

_PACKAGES = ("torch", "executorch", "torchao", "transformers", "numpy")
_FEATURES = ("avx2", "fma", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_int8", "asimddp", "i8mm", "sve")
_HARNESS = ("harness/jobs.py", "harness/rounds.py", "harness/edgec_engine.py", "peers")


def machine(load_before: float | None) -> Machine:
    """This machine, at the end of a run that began with the given load average."""
    facts = host_facts()
    return Machine(
        cpu=facts.cpu,
        cores=facts.cores,
        memory_bytes=facts.memory_bytes,
        system=facts.system,
        features=_features(),
        governor=facts.governor,
        load_average=(load_before, facts.load_average),
    )


def host_facts() -> DeviceFacts:
    """The facts that edgec reads about this machine now."""
    from edgec.devices.host import HostTransport

    return HostTransport().facts()


def _features() -> list[str]:
    return [name for name in _FEATURES if name in processor_features()]


def versions() -> dict[str, str]:
    """The versions of everything that runs, including the peers' pins."""
    import edgec

    own = {"edgec": edgec.__version__, "python": platform.python_version(), "compiler": _compiler()}
    peers = dict(pin.split("==") for pin in REQUIREMENTS[:2])
    return {**own, **{name: version(name) for name in _PACKAGES}, **peers}


def _compiler() -> str:
    program = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if program is None:
        return "none"
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


def identity() -> str:
    """A digest of edgec's sources, the harness and this machine; a run with the same digest may be resumed."""
    from edgec.exporter.provenance import source_digest

    own = source_digest(("edgec.exporter.api", "edgec.runtime_py.bench.bench"), without=())
    what = [own, _harness_digest(), versions(), platform.machine(), os.cpu_count(), host_facts().cpu]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:12]


def _harness_digest() -> str:
    root = Path(__file__).resolve().parents[1]
    places = [root / name for name in _HARNESS]
    files = [file for place in places for file in (sorted(place.glob("*.py")) if place.is_dir() else [place])]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
