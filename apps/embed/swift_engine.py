"""The package's C++ target: sources of edgec's engine, with their C interface as a module for Swift.

Where the engine executes the artifact it is all of the engine with its kernels, over ExecuTorch's runtime; where the
system does, and the model takes images or audio, only what prepares images or transcribes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgec.apps.embed.app_facts import AppFacts
from edgec.apps.embed.engine_sources import (
    engine_functions,
    engine_sources,
    executorch_version,
    image_functions,
    image_sources,
    shared_types,
    speech_functions,
    speech_sources,
)
from edgec.apps.embed.glue import Glue
from edgec.apps.embed.project import MODULE, SWIFT, Project
from edgec.apps.embed.template_text import fill, load, module_name
from edgec.bundle.prefix import Files
from edgec.engine.compile.build import SOURCES

_NAMESPACE = "edgec"
_HEADERS = f"Sources/{MODULE}Engine/include"


@dataclass(frozen=True)
class CTarget:
    """A C++ target of a package.

    Attributes:
        module: its name and its module's: the model's own, since an app may hold several such packages.
        functions: the names of its C interface.
        sources: paths under ``engine``.
        sense: what the part of the engine does that is compiled alone; empty for all of the engine.
    """

    module: str
    functions: tuple[str, ...]
    sources: tuple[str, ...]
    sense: str = ""

    @property
    def target(self) -> str:
        """The template of its entry in the package."""
        return "SensesTarget.swift" if self.sense else "EngineTarget.swift"


def c_target(facts: AppFacts, glue: Glue) -> CTarget | None:
    """The C++ target of a package; None where it has none."""
    name = f"{module_name(facts)}Engine"
    if glue.engine:
        senses = (facts.audio is not None, facts.vision is not None)
        return CTarget(name, engine_functions(*senses), engine_sources(*senses))
    if facts.vision is not None:
        return CTarget(name, image_functions(), image_sources(), "prepares images")
    if facts.audio is not None:
        return CTarget(name, speech_functions(), speech_sources(), "transcribes speech")
    return None


def c_target_files(facts: AppFacts, glue: Glue, project: Project) -> Files:
    """The C++ target's files: path in the package -> content, or a file to copy."""
    made = c_target(facts, glue)
    if made is None:
        return {}
    headers = (f"{_HEADERS}/{name}" for name in (f"{MODULE}Engine.h", "module.modulemap"))
    sources = {f"Sources/{made.module}/edgec/{path}": SOURCES / path for path in made.sources}
    return {**{project.named(path): project.copied(path) for path in headers}, **sources}


def c_target_values(facts: AppFacts, glue: Glue) -> Mapping[str, str]:
    """The placeholders for a package's C++ target; empty where it has none.

    Raises:
        InputError: E464, the manifest names no version of ExecuTorch.
    """
    made = c_target(facts, glue)
    if made is None:
        return {"engine_target": ""}
    inside = (_NAMESPACE, *shared_types(made.sources))
    names = {**_renamed(facts, made), **{name: f"{module_name(facts)}_{name}" for name in inside}}
    values = {
        "engine_module": made.module,
        "engine_products": "\n".join(map(executorch_product, glue.products)),
        "runtime_version_text": executorch_version(facts.manifest) if glue.engine else "",
        "engine_names": "\n".join(f'                .define("{old}", to: "{new}"),' for old, new in names.items()),
        "sense": made.sense,
    }
    target = fill(load(SWIFT, made.target), values)
    return {"engine_target": target}


def executorch_product(name: str) -> str:
    """A dependency on a product of ExecuTorch's Swift package, as a line of a target."""
    return f'                .product(name: "{name}", package: "executorch"),'


def _renamed(facts: AppFacts, made: CTarget) -> Mapping[str, str]:
    """Names of the C interface -> those in this package: a linker accepts each name only once in an app."""
    return {name: f"{module_name(facts)}_{name.removeprefix('edgec_')}" for name in made.functions}
