"""The package's C++ target: edgec's engine and kernels as sources, with their C interface as a module for Swift."""

from __future__ import annotations

from collections.abc import Mapping

from edgec.bundle.prefix import Files
from edgec.devices.embed.app_facts import AppFacts
from edgec.devices.embed.engine_sources import (
    RUNNER,
    engine_functions,
    engine_sources,
    executorch_version,
)
from edgec.devices.embed.glue import Glue
from edgec.devices.embed.template_text import fill, load, module_name
from edgec.installation import __version__

_TEMPLATES = "edgec.devices.embed.native"
_NAMESPACE = "edgec"


def engine_module(facts: AppFacts) -> str:
    """The name of the C++ target and of its module: the model's, since an app may hold several."""
    return f"{module_name(facts)}Engine"


def engine_target(facts: AppFacts) -> Files:
    """The target's files: path in the package -> content, or a file to copy."""
    folder, name = f"Sources/{engine_module(facts)}", engine_module(facts)
    values = {
        "engine_module": name,
        "edgec_version": __version__,
        "engine_header": _header(facts),
        "renamed": "\n".join(f"#define {old} {new}" for old, new in _renamed(facts).items()),
    }
    header, modules = (fill(load(_TEMPLATES, each), values).encode() for each in ("Engine.h", "module.modulemap"))
    sources = {f"{folder}/edgec/{path}": RUNNER / path for path in engine_sources(*_senses(facts))}
    return {f"{folder}/include/{name}.h": header, f"{folder}/include/module.modulemap": modules, **sources}


def _senses(facts: AppFacts) -> tuple[bool, bool]:
    """Whether the model hears, and sees."""
    return facts.hearing is not None, facts.sight is not None


def _header(facts: AppFacts) -> str:
    """The header with all of the C interface; those of speech and of images include the engine's."""
    if facts.hearing is not None:
        return "speech/speech_api.h"
    return "engine/c_api.h" if facts.sight is None else "sight/sight_api.h"


def engine_package_values(facts: AppFacts, glue: Glue) -> Mapping[str, str]:
    """The placeholders for a package's engine; empty where another runtime executes the artifact.

    Raises:
        InputError: E464, the manifest names no version of ExecuTorch.
    """
    if not glue.engine:
        return {"engine_module": "", "engine_prefix": "", "engine_target": ""}
    names = {**_renamed(facts), _NAMESPACE: f"{module_name(facts)}_{_NAMESPACE}"}
    values = {
        "engine_module": engine_module(facts),
        "engine_products": "\n".join(map(executorch_product, glue.products)),
        "runtime_version_text": executorch_version(facts.manifest),
        "engine_names": "\n".join(f'                .define("{old}", to: "{new}"),' for old, new in names.items()),
    }
    target = fill(load(_TEMPLATES, "EngineTarget.swift"), values)
    return {"engine_module": values["engine_module"], "engine_prefix": module_name(facts), "engine_target": target}


def executorch_product(name: str) -> str:
    """A dependency on a product of ExecuTorch's Swift package, as a line of a target."""
    return f'                .product(name: "{name}", package: "executorch"),'


def _renamed(facts: AppFacts) -> Mapping[str, str]:
    """Names of the C interface -> those in this package: a linker accepts each name only once in an app."""
    names = engine_functions(*_senses(facts))
    return {name: f"{module_name(facts)}_{name.removeprefix('edgec_')}" for name in names}
