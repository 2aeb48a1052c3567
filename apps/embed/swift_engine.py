"""The package's C++ target: sources of edgec's engine, with their C interface as a module for Swift.

Where the engine executes the artifact it is all of the engine with its kernels, over ExecuTorch's runtime; where the
system does, and the model takes images or audio, only what prepares images or transcribes.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgec.apps.embed.app_facts import AppFacts
from edgec.apps.embed.engine_sources import (
    engine_functions,
    engine_sources,
    image_functions,
    image_sources,
    speech_functions,
    speech_sources,
)
from edgec.apps.embed.glue import Glue
from edgec.apps.embed.project import MODULE, Project
from edgec.apps.embed.template_text import module_name
from edgec.bundle.prefix import Files
from edgec.engine.compile.build import SOURCES

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
