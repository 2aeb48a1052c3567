"""The format ``mlpackage``: an app loads the package itself (iOS 18 on)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from edgec.backends.coreml.execute import PackageMethods, package_methods
from edgec.backends.coreml.package import write_package
from edgec.backends.coreml.placement import inside
from edgec.backends.coreml.stored import package_layout
from edgec.backends.static_artifact import Progress, StaticArtifact
from edgec.exporter.bundle.pte_layout import Layout
from edgec.exporter.program import Interface, Program
from edgec.passes.half_precision import half_interface

EXECUTED_BY = "executed by edgec's interpreter of Core ML programs (simulated)"


def lower(methods: Mapping[str, Program], path: Path, progress: Progress) -> StaticArtifact:
    """Write a package with a function for each method.

    Raises:
        InputError: E404, coremltools has no form for an operator.
    """
    write_package(methods, path, progress)
    interfaces: dict[str, Interface] = {name: half_interface(p.interface) for name, p in methods.items()}
    return StaticArtifact(interfaces, inside(path))


def execute(path: Path) -> PackageMethods:
    """Load a package's functions."""
    return package_methods(path)


def layout(path: Path) -> Layout:
    """Where a package's bytes lie."""
    return package_layout(path)
