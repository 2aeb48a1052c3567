"""The Swift glue that fits an artifact: system version, runtime, and the ExecuTorch products to link."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from edgec.bundle.delegates import XNNPACK
from edgec.bundle.entry_points import MethodInfo
from edgec.bundle.manifest import Manifest
from edgec.devices.embed.app_facts import AppFacts
from edgec.devices.embed.engine_sources import executorch_operators, takes_quantized
from edgec.devices.prediction.oldest_fit import minimum_os
from edgec.errors import InputError

STATIC_INPUTS = {"tokens", "start", "last"}
_BACKEND_PRODUCTS = {"XnnpackBackend": "backend_xnnpack", "CoreMLBackend": "backend_coreml"}
_KERNEL_PRODUCTS = {
    "llama::": "kernels_llm",
    "quantized_decomposed::": "kernels_quantized",
    "torchao::": "kernels_torchao",
}


@dataclass(frozen=True)
class Glue:
    """The choice of Swift templates and libraries for one format.

    Attributes:
        minimum_os: the oldest iOS that can load the artifact.
        runtime: name of the template that executes it.
        decoder: name of the template that feeds tokens to it.
        methods_share_state: prefill and decode write one cache.
        products: of ExecuTorch's Swift package; empty where the system includes the runtime.
        engine: the package compiles edgec's engine and kernels.
    """

    minimum_os: tuple[int, int]
    runtime: str
    decoder: str
    methods_share_state: bool
    products: tuple[str, ...]
    engine: bool = False

    @property
    def static(self) -> bool:
        """Whether the decoder has the static methods prefill and decode."""
        return self.decoder == "DecoderStatic"


def glue_for(facts: AppFacts) -> Glue:
    """The glue for a bundle.

    Raises:
        InputError: E464, there is no glue for its format, its operators or its methods.
    """
    manifest, backend = facts.manifest, facts.target.backend
    row = _row(facts)
    _check_whole(facts)
    major, minor = map(int, minimum_os(str(manifest.format), backend).split("."))
    glue = Glue(
        minimum_os=(major, minor),
        runtime=row["runtime"],
        decoder=row["decoder"],
        methods_share_state=row["methods_share_state"] or caller_states(manifest) == {s.name for s in manifest.states},
        products=_PRODUCTS[row["runtime"]](facts) if row["runtime"] in _PRODUCTS else (),
        engine=row["runtime"] == _ENGINE,
    )
    if glue.static and manifest.limits is not None:
        _check_static(manifest)
    return glue


def _row(facts: AppFacts) -> Mapping[str, Any]:
    """The row of ``runtimes.toml``: edgec's engine where the artifact needs its kernels."""
    manifest, backend = facts.manifest, facts.target.backend
    rows = _table().get(str(manifest.format), {})
    if backend not in rows:
        raise _unfit(manifest, f"there is no Swift glue for {manifest.format} made by {backend}")
    if not facts.own_kernels and (facts.hearing or facts.sight):
        why = f"only edgec's engine {'transcribes' if facts.hearing else 'sees'}"
        raise _unfit(manifest, why, "export it for a CPU, with edgec's own kernels")
    if not facts.own_kernels:
        return dict(rows[backend])
    if backend != "xnnpack" or "engine" not in rows:
        why = f"it needs {facts.own_kernels[0]} of edgec's kernels, which an app has for the CPU only"
        raise _unfit(manifest, why, "export it with --kernels standard")
    return dict(rows["engine" if facts.sight is None else "sight"])


def _check_whole(facts: AppFacts) -> None:
    """Refuse a model above the file limit, which is a folder of packages to be called one after the other."""
    manifest = facts.manifest
    top = f"{manifest.artifact.rstrip('/')}/Manifest.json"
    if manifest.format == "mlpackage" and top not in {file.path for file in facts.files}:
        raise _unfit(
            manifest,
            f"{manifest.artifact} is not one package but a folder of several, and the glue runs only one",
            "export it with fewer bits, so that it is one package, or with --format pte",
        )


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads((files(__package__) / "runtimes.toml").read_text(encoding="utf-8"))


def executorch_branch(version: str) -> str:
    """The branch of ExecuTorch's Swift package that runs what a version of ExecuTorch exported."""
    return f"swiftpm-{_table()['executorch_package'].get(version, version)}"


def _products(facts: AppFacts) -> tuple[str, ...]:
    manifest, operators = facts.manifest, facts.manifest.runtime.operators
    backends = [_BACKEND_PRODUCTS[name] for name in manifest.runtime.backends if name in _BACKEND_PRODUCTS]
    kernels = [
        product for prefix, product in _KERNEL_PRODUCTS.items() if any(name.startswith(prefix) for name in operators)
    ]
    return ("executorch", *backends, "kernels_optimized", *kernels)


def _engine_products(facts: AppFacts) -> tuple[str, ...]:
    """What edgec's engine links: the thread pool comes with the kernels, ``llama::`` operators are edgec's own."""
    executorch_operators(facts.manifest)
    backends = ["backend_xnnpack"] if XNNPACK in facts.delegates else []
    quantized = ["kernels_quantized"] if takes_quantized(facts.manifest) else []
    return ("executorch", *backends, "kernels_optimized", *quantized)


_ENGINE = "RuntimeEngine"
_PRODUCTS: Mapping[str, Callable[[AppFacts], tuple[str, ...]]] = {
    "RuntimeExecuTorch": _products,
    _ENGINE: _engine_products,
}


def _check_static(manifest: Manifest) -> None:
    methods = {method.name: method for method in manifest.methods}
    for name in ("prefill", "decode"):
        if name not in methods:
            raise _unfit(manifest, f"it has no method {name}")
        if not _is_static(methods[name], {state.name for state in manifest.states}):
            wanted = ", ".join(sorted(STATIC_INPUTS))
            raise _unfit(manifest, f"the method {name} does not take {wanted} and states, of fixed shapes")


def _is_static(method: MethodInfo, states: set[str]) -> bool:
    names = {tensor.name for tensor in method.inputs}
    fixed = all(isinstance(size, int) for tensor in method.inputs for size in tensor.shape)
    return STATIC_INPUTS <= names <= STATIC_INPUTS | states and fixed


def caller_states(manifest: Manifest) -> set[str]:
    """The states that are inputs of the methods: the caller holds them and writes the new values."""
    names = {tensor.name for method in manifest.methods for tensor in method.inputs}
    return {state.name for state in manifest.states} & names


def _unfit(
    manifest: Manifest, why: str, fix: str = "export it for an iOS target with this version of edgec"
) -> InputError:
    return InputError(
        "no app glue fits this bundle",
        where=manifest.name,
        why=why,
        fix=fix,
        code="E464",
    )
