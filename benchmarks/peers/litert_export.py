"""One export for ``benchmarks.litert``: by litert-torch's own exporter and a recipe of its quantizer, or by edgec.

A job has ``folder`` (a Hugging Face folder with a tokenizer), ``out``, ``context``, and ``recipe`` of the quantizer or
``target`` of edgec. Run it alone: its process's CPU time and peak memory are figures of the benchmark.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from benchmarks.harness.jobs import status_bytes
from edgec.backends.litert.toolkit import prepare_converter, runtime_module

_CALLS = [128, 32]
"""Tokens of its signatures for prompts, as edgec's."""


def main() -> None:
    """Export as the job on stdin says; print the peak of memory."""
    job: Mapping[str, Any] = json.load(sys.stdin)
    (_by_edgec if "target" in job else _by_litert_torch)(job)
    print(json.dumps({"peak_bytes": status_bytes("VmHWM")}))


def _by_edgec(job: Mapping[str, Any]) -> None:
    import edgec

    edgec.export(job["folder"], target=job["target"], context=job["context"], out=job["out"], force=True)


def _by_litert_torch(job: Mapping[str, Any]) -> None:
    prepare_converter(lambda _: None)
    _lend_schema()
    exporter = runtime_module("litert_torch.generative.export_hf.export")
    with TemporaryDirectory(dir=Path(job["out"]).parent) as made:
        exporter.export(
            model=job["folder"],
            output_dir=made,
            prefill_lengths=_CALLS,
            cache_length=job["context"],
            quantization_recipe=job["recipe"],
            bundle_litert_lm=True,
        )
        (file,) = Path(made).glob("*.litertlm")
        file.replace(job["out"])


def _lend_schema() -> None:
    """Let it find the flatbuffer's schema, which it imports from tensorflow without asking for that."""
    names = ("tensorflow", "tensorflow.lite", "tensorflow.lite.python")
    for name in names:
        module = sys.modules[name] = ModuleType(name)
        module.__spec__, module.__path__ = ModuleSpec(name, None, is_package=True), []
    schema = runtime_module("ai_edge_litert.schema_py_generated")
    vars(sys.modules[names[-1]])["schema_py_generated"] = schema
    sys.modules[f"{names[-1]}.schema_py_generated"] = schema


if __name__ == "__main__":
    main()
