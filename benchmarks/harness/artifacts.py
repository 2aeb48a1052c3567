"""Artifacts of the subjects, made once and kept under build/bench together with the cost of making them.

A peer's artifact outlives changes of edgec, since ExecuTorch takes ten minutes for one; edgec's own is made again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.harness.models import Model, weights, write_config
from benchmarks.harness.processes import QUIET, Done, ProcessFailed, run, run_worker
from benchmarks.harness.subjects import Subject
from benchmarks.peers.environment import ENVIRONMENTS

GGUF = "benchmarks.peers.gguf_model"
_EXPORTS = {
    "edgec": "benchmarks.harness.edgec_export",
    "executorch": "benchmarks.peers.executorch_export",
    "openvino": "benchmarks.peers.openvino_export",
    "onnxruntime": "benchmarks.peers.onnxruntime_export",
    "mnn": "benchmarks.peers.mnn_export",
    "onnx": "benchmarks.peers.onnx_export",
    "ctranslate2": "benchmarks.peers.ctranslate2_export",
}
_FILES = {
    "executorch": "model.pte",
    "openvino": "model.xml",
    "onnxruntime": "model.onnx",
    "mnn": "config.json",
    "onnx": "forms",
    "ctranslate2": "forms",
}
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}


@dataclass(frozen=True)
class Made:
    """An artifact and the figures of making it.

    Attributes:
        path: the file, or the bundle's folder.
        file_bytes: size of the artifact alone.
        decode_bytes: bytes of weights read for one token, where the maker reports them.
        cost: ``cpu_s``, ``wall_s`` and ``peak_bytes`` of the export; None for a conversion, which is not an export.
    """

    path: Path
    file_bytes: int
    decode_bytes: int | None = None
    cost: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Workshop:
    """The place where artifacts are made and kept.

    Attributes:
        build: build/bench.
        identity: digest of edgec's sources; an edgec artifact is valid for one.
        failed: artifacts that could not be made in this run, by folder.
        broken: environments that could not be made in this run, by maker, and why.
    """

    build: Path
    identity: str
    failed: set[str] = field(default_factory=set)
    broken: dict[str, str] = field(default_factory=dict)

    @property
    def cache(self) -> Path:
        """The cache of edgec for its engine and packed weights; finished export stages are removed before an export."""
        return self.build / "cache"

    @cached_property
    def peers(self) -> Path:
        """The Python interpreter of llama.cpp's environment."""
        return self.python("gguf")

    def interpreter(self, subject: Subject) -> Path:
        """The Python that runs a subject's worker, and its export unless that is edgec's."""
        if subject.maker not in ENVIRONMENTS:
            return Path(sys.executable)
        return self.python(f"{subject.maker} {subject.isa}".strip())

    def python(self, maker: str) -> Path:
        """The interpreter of a maker's environment, which is made on first use, and tried once.

        Raises:
            ProcessFailed: it cannot be made.
        """
        if maker in self.broken:
            raise ProcessFailed(self.broken[maker])
        try:
            return ENVIRONMENTS[maker].python(self.build)
        except ProcessFailed as failed:
            self.broken[maker] = str(failed)
            raise

    def model_folder(self, model: Model) -> Path:
        """The folder of config.json and, once they are needed, weights."""
        return self.build / "models" / model.name

    def made(self, subject: Subject) -> Made:
        """The subject's artifact, made now unless it exists.

        Raises:
            ProcessFailed: it cannot be made.
        """
        folder = self.build / "artifacts" / self._name(subject)
        facts = folder / "made.json"
        if not facts.is_file():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            self.failed.add(folder.name)
            facts.write_text(json.dumps(MAKERS[subject.maker](self, subject, folder)))
            self.failed.remove(folder.name)
        fields = json.loads(facts.read_text())
        return Made(folder / fields.pop("file"), **fields)

    def can_make(self, subject: Subject) -> bool:
        """Whether the subject's artifact has not failed so far."""
        return self._name(subject) not in self.failed

    def _name(self, subject: Subject) -> str:
        own = {"edgec": self.identity, "executorch": version("executorch")}
        what = own.get(subject.maker) or ENVIRONMENTS[subject.maker].requirements
        key = [what, subject.model.config, dict(subject.options), subject.context if subject.maker == "edgec" else 0]
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:12]
        return f"{subject.model.name}-{subject.maker}-{digest}"


def _make_edgec(shop: Workshop, subject: Subject, folder: Path) -> dict[str, Any]:
    config = write_config(subject.model, shop.model_folder(subject.model))
    # No stage may come from an earlier export, and the first load packs the weights.
    for kept in ("stages", "packed"):
        shutil.rmtree(shop.cache / kept, ignore_errors=True)
    job = {"config": str(config), "out": str(folder / "model.edgec"), **subject.options}
    # 0: as many tokens as the model reads, or it reads none.
    job["context"] = subject.context or None
    return {"file": "model.edgec", **_exported(Path(sys.executable), subject, job)}


def _make_by_peer(shop: Workshop, subject: Subject, folder: Path) -> dict[str, Any]:
    source, file = weights(subject.model, shop.model_folder(subject.model)).parent, _FILES[subject.maker]
    job = {"folder": str(source), "out": str(folder / file), **subject.options}
    return {"file": file, **_exported(shop.interpreter(subject), subject, job)}


def _exported(python: Path, subject: Subject, job: Mapping[str, Any]) -> dict[str, Any]:
    done: Done = run([python, "-m", _EXPORTS[subject.maker]], stdin=job, environment={**QUIET, **_OFFLINE})
    facts = done.json()
    return {"cost": {**asdict(done.cost), "peak_bytes": facts.pop("peak_bytes")}, **facts}


def _make_gguf(shop: Workshop, subject: Subject, folder: Path) -> dict[str, Any]:
    source = float16_gguf(shop, subject.model, subject.options.get("tokenizer", False))
    job = {"source": str(source), "out": str(folder / "model.gguf"), **subject.options}
    facts = run_worker(GGUF, job, python=shop.peers)
    return {"file": "model.gguf", "file_bytes": facts["file_bytes"], "decode_bytes": facts["decode_bytes"]}


def float16_gguf(shop: Workshop, model: Model, tokenizer: bool = False) -> Path:
    """The model for llama.cpp before quantising; with a tokenizer, if asked for, of made-up words."""
    folder = shop.model_folder(model)
    out = folder / ("model-f16-tokenizer.gguf" if tokenizer else "model-f16.gguf")
    if not out.is_file():
        tensors, config = weights(model, folder), folder / "config.json"
        job = {"config": str(config), "weights": str(tensors), "out": str(out), "tokenizer": tokenizer}
        run_worker(GGUF, job, python=shop.peers)
    return out


MAKERS: dict[str, Callable[[Workshop, Subject, Path], dict[str, Any]]] = {
    "edgec": _make_edgec,
    "executorch": _make_by_peer,
    "gguf": _make_gguf,
    "openvino": _make_by_peer,
    "onnxruntime": _make_by_peer,
    "mnn": _make_by_peer,
    "onnx": _make_by_peer,
    "ctranslate2": _make_by_peer,
}
