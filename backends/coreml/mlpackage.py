"""The format ``mlpackage``: an app loads the package itself (iOS 18 on).

Above ``PART_BYTES`` of weights the artifact is a folder of packages, ``part_0.mlpackage`` and so on, called one
after the other: each but the last gives ``next_hidden``, which is ``hidden`` for the next one. What reads no tokens (an
image encoder) is a function beside the decoder's, in a package of its own where there are several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from edgec.backends.coreml.execute import LoadPackage, PackageMethods, PartedMethods, package_methods
from edgec.backends.coreml.interpreter import MilFunction, load_package
from edgec.backends.coreml.interpreter.graph import read_graph
from edgec.backends.coreml.interpreter.proto import read_spec
from edgec.backends.coreml.metadata import PackageCard, describe_package
from edgec.backends.coreml.package import write_package
from edgec.backends.coreml.stored import package_layout
from edgec.backends.static_artifact import LoweringProgress, StaticArtifact
from edgec.bundle.findings import Delegation
from edgec.bundle.pte_layout import ArtifactLayout
from edgec.errors import InputError
from edgec.ir.program import Interface, Program
from edgec.ir.stateful_call import MAIN, StatefulMethods, stateful_names
from edgec.ir.static_methods import PREFILL
from edgec.passes.static.add_adapter import is_added
from edgec.passes.static.half_precision import half_interface
from edgec.passes.static.parts.cut_model import cut_model, held_names, stored_sizes

EXECUTED_BY = "executed by edgec's interpreter of Core ML programs (simulated)"
# The Neural Engine's compiler fails on larger files (Anemll/Anemll#28).
PART_BYTES = 1_000_000_000
# Position tables come on top of a part's weights; methods cut at different layers exceed it by a layer or more.
_UNEVEN = 1.1


def lower(
    methods: Mapping[str, Program], path: Path, progress: LoweringProgress, part_bytes: int | None = None
) -> StaticArtifact:
    """Write a package with a function for each method, or several packages that hold a part of each.

    Args:
        methods: by name.
        path: of the artifact.
        progress: told of every step.
        part_bytes: the most bytes of weights in a package; None for ``PART_BYTES``.

    Raises:
        InputError: E404, coremltools cannot convert an operator; E408, a part cannot be made small enough.
    """
    parts = _packages(methods, part_bytes or PART_BYTES)
    if len(parts) == 1:
        write_package(methods, path, progress)
    else:
        path.mkdir()
        for index, part in enumerate(parts):
            write_package(part, path / f"part_{index}.mlpackage", progress, named=len(methods) > 1)
    interfaces: dict[str, Interface] = {name: half_interface(p.interface) for name, p in methods.items()}
    return StaticArtifact(interfaces, _delegation(packages(path)))


def _delegation(written: Sequence[Path]) -> Delegation:
    """The delegation of packages, each of which Core ML runs as a whole."""
    functions = [f for package in written for f in read_spec(package).mlProgram.functions.values()]
    return Delegation(
        backend="coreml",
        delegates=len(written),
        delegated_operators=sum(len(read_graph(function).steps) for function in functions),
        delegated_share=1.0,
        fallbacks=[],
    )


def _packages(methods: Mapping[str, Program], part_bytes: int) -> list[dict[str, Program]]:
    """The functions of each package: all in one where it is small enough."""
    decoder = {name: program for name, program in methods.items() if _reads_tokens(program)}
    beside = {name: program for name, program in methods.items() if name not in decoder}
    if not decoder:
        return [beside]
    parts = _parts(decoder, part_bytes)
    if not beside:
        return parts
    # Equal weights are stored once.
    sizes = {name: size for program in methods.values() for name, size in stored_sizes(program, packed=True).items()}
    together = len(parts) == 1 and sum(sizes.values()) <= part_bytes
    return [dict(methods)] if together else [beside, *parts]


def _reads_tokens(program: Program) -> bool:
    return "tokens" in {tensor.name for tensor in program.interface.inputs}


def _parts(methods: Mapping[str, Program], part_bytes: int) -> list[dict[str, Program]]:
    """The methods' parts, side by side; a part of every method is in one package and shares its weights."""
    sizes = {name: stored_sizes(program, packed=True) for name, program in methods.items()}
    # Without what adapters add, all methods are cut at the same places.
    shared = {name: {key: size for key, size in each.items() if not is_added(key)} for name, each in sizes.items()}
    cut = {name: cut_model(program, shared[name], part_bytes) for name, program in methods.items()}
    counts = [len(parts) for parts in cut.values()]
    if len(set(counts)) > 1:
        raise _apart(", ".join(f"{name}: {len(parts)} parts" for name, parts in cut.items()))
    parts = [{name: parts[index] for name, parts in cut.items()} for index in range(counts[0])]
    known = {name: size for each in sizes.values() for name, size in each.items()}
    for index, part in enumerate(parts if len(parts) > 1 else ()):
        held = sum(known.get(name, 0) for name in set().union(*map(held_names, part.values())))
        if held > part_bytes * _UNEVEN:
            raise _apart(f"part {index}: {held:,} bytes, of {part_bytes:,}")
    return parts


def _apart(where: str) -> InputError:
    return InputError(
        what="the methods of this model cannot be cut at the same places",
        where=where,
        why="each package must hold the same part of every method, or weights would be stored twice",
        fix="use fewer bits, so that one package holds all",
        code="E408",
    )


def packages(path: Path) -> list[Path]:
    """The packages of an artifact, in the order in which they are called."""
    if (path / "Manifest.json").is_file():
        return [path]
    return sorted(path.glob("part_*.mlpackage"), key=lambda part: int(part.stem.removeprefix("part_")))


def describe_packages(path: Path, card: PackageCard) -> None:
    """Write what is known of an artifact's contents into each of its packages."""
    for package in packages(path):
        describe_package(package, card)


def execute(path: Path, load: LoadPackage = load_package) -> PackageMethods | PartedMethods | StatefulMethods:
    """Load the functions of a package, or of several; or the one function of another runtime's layout.

    Args:
        path: of the artifact.
        load: what executes a package; edgec's interpreter unless another is given.
    """
    loaded = [package_methods(package, load) for package in packages(path)]
    if len(loaded) == 1:
        return _stateful(loaded[0]) or loaded[0]
    return PartedMethods([each for each in loaded if PREFILL in each.functions])


def _stateful(methods: PackageMethods) -> StatefulMethods | None:
    """The one function of a package that another runtime calls; None where edgec's own do."""
    main = methods.functions.get(MAIN)
    names = stateful_names([feature.name for feature in main.inputs]) if main is not None else None
    return None if main is None or names is None else StatefulMethods(main, names)


def function_of(path: Path, name: str | None = None, load: LoadPackage = load_package) -> MilFunction:
    """Load one function, which holds no state.

    Args:
        path: of the artifact.
        name: None for the only one.
        load: what executes a package; edgec's interpreter unless another is given.

    Raises:
        InputError: E420 an operator that the interpreter does not know, E421 a damaged package or none such function.
    """
    for package in map(load, packages(path)):
        wanted = package.default_function if name is None else name
        if wanted in package.functions:
            return package.functions[wanted]
    raise InputError(
        f"The Core ML package has no function {name!r}.",
        where=path.name,
        why="the manifest lists it, and the package does not hold it",
        fix="export the model again",
        code="E421",
    )


def layout(path: Path) -> ArtifactLayout:
    """Where the artifact's bytes lie; packages cannot share bytes, so each is a separate place."""
    first, *others = (package_layout(package) for package in packages(path))
    for index, other in enumerate(others, 1):
        first = replace(
            first,
            artifact_bytes=first.artifact_bytes + other.artifact_bytes,
            program_bytes=first.program_bytes + other.program_bytes,
            padding_bytes=first.padding_bytes + other.padding_bytes,
            stored=(*first.stored, *(replace(run, place=f"{run.place} of part {index}") for run in other.stored)),
        )
    return first
