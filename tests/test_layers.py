"""The layers of docs/architecture.md, read from the imports: no folder imports from one after it, no circles."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from edgec.exporter.provenance import direct_imports

PACKAGE = Path(__file__).parents[1] / "src" / "edgec"
LAYERS = ("ir", "bundle", "passes", "engine", "devices", "apps", "backends", "runtime_py", "exporter", "cli")
# What stands beside the order: these read bundles, and know nothing of graph rewrites.
STRANGERS = {"runtime_py": ("passes",), "devices": ("passes",), "engine": ("passes",), "apps": ("passes",)}
# Names that are programs', not models'.
PROGRAMS = ("llama.cpp", "llama-cli")
# By which transformers calls a decoder; a backend that spells one has learnt a model family.
FAMILIES = ("llama", "qwen", "gemma", "mistral", "phi3", "smollm", "gpt2", "mixtral")


def modules(package: Path) -> dict[str, Path]:
    """Every module of the package by dotted name; folders are links, so they are walked one by one."""
    found = {"edgec": package / "__init__.py"}
    found |= {f"edgec.{path.stem}": path for path in package.glob("*.py") if path.stem != "__init__"}
    for layer in LAYERS:
        for path in sorted((package / layer).rglob("*.py")):
            parts = path.relative_to(package).with_suffix("").parts
            name = ".".join(("edgec", *(parts[:-1] if parts[-1] == "__init__" else parts)))
            found[name] = path
    return found


def imports(package: Path) -> dict[str, tuple[str, ...]]:
    return {name: direct_imports(path, types=True) for name, path in modules(package).items()}


def layer_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def upward(graph: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Imports from a later layer, or from a layer that a folder must not know."""
    for module, targets in graph.items():
        own = layer_of(module)
        for target in targets:
            other = layer_of(target)
            ordered = own in LAYERS and other in LAYERS
            if other in STRANGERS.get(own, ()) or (ordered and LAYERS.index(other) > LAYERS.index(own)):
                yield f"{module} -> {target}"


def circle(graph: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Modules that import each other, directly or through others; empty where there are none."""
    known = {name: [target for target in targets if target in graph] for name, targets in graph.items()}
    try:
        tuple(TopologicalSorter(known).static_order())
    except CycleError as error:
        return list(error.args[1])
    return []


def folder_circles(graph: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Circles between the folders inside one folder."""
    folders = {module.rpartition(".")[0] for module in graph if layer_of(module) in LAYERS}
    for parent in sorted({name for folder in folders for name in _above(folder)}):
        inside: dict[str, set[str]] = {}
        for module, targets in graph.items():
            own = _child(parent, module, folders)
            for target in targets if own else ():
                other = _child(parent, target, folders)
                if other and other != own:
                    inside.setdefault(own, set()).add(other)
        try:
            tuple(TopologicalSorter(inside).static_order())
        except CycleError as error:
            yield " -> ".join(error.args[1])


def _above(folder: str) -> Iterator[str]:
    while folder.count(".") > 1:
        folder = folder.rpartition(".")[0]
        yield folder


def _child(parent: str, module: str, folders: set[str]) -> str:
    """The folder right below ``parent`` that a module lies in; empty where there is none."""
    if not module.startswith(f"{parent}."):
        return ""
    name = ".".join(module.split(".")[: parent.count(".") + 2])
    return name if any(folder == name or folder.startswith(f"{name}.") for folder in folders) else ""


@pytest.mark.long
def test_no_folders_beside_each_other_import_each_other() -> None:
    assert not list(folder_circles(imports(PACKAGE)))


@pytest.mark.long
def test_each_layer_imports_only_from_those_before_it() -> None:
    assert not list(upward(imports(PACKAGE)))


def test_no_modules_import_each_other() -> None:
    assert not circle(imports(PACKAGE))


def test_the_root_knows_no_layer() -> None:
    """Errors, quiet and the like lie below everything; the public names are imported when they are asked for."""
    graph = imports(PACKAGE)
    root = [name for name in graph if layer_of(name) not in LAYERS and name not in ("edgec", "edgec.__main__")]
    assert root
    assert not [f"{name} -> {target}" for name in root for target in graph[name] if layer_of(target) in LAYERS]


def words(path: Path) -> Iterator[str]:
    """Names and strings of a file's code; docstrings may cite a measurement."""
    tree = ast.parse(path.read_text())
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield _without_programs(node.value.lower())
        elif isinstance(node, ast.Name):
            yield node.id.lower()


def _without_programs(text: str) -> str:
    for program in PROGRAMS:
        text = text.replace(program, "")
    return text


def test_no_backend_knows_a_model_family() -> None:
    files = sorted((PACKAGE / "backends").rglob("*.py"))
    assert len(files) > 50
    assert not [(path.name, word) for path in files for word in words(path) if any(f in word for f in FAMILIES)]


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A package with one module per layer, each importing the one before it."""
    before = ""
    for layer in LAYERS:
        (tmp_path / layer).mkdir()
        (tmp_path / layer / "thing.py").write_text(f"from edgec.{before}.thing import x\n" if before else "")
        # Those after passes must not know them.
        before = layer if layer != "passes" else before
    (tmp_path / "__init__.py").write_text("")
    return tmp_path


def test_a_planted_upward_import_and_a_planted_circle_are_found(planted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgec.exporter.provenance.PACKAGE", planted)
    direct_imports.cache_clear()
    assert not list(upward(imports(planted))) and not circle(imports(planted))
    (planted / "ir" / "thing.py").write_text("def late():\n    from edgec.cli.thing import x\n")
    (planted / "devices" / "thing.py").write_text("from edgec.passes.thing import x\n")
    direct_imports.cache_clear()
    assert list(upward(imports(planted))) == [
        "edgec.ir.thing -> edgec.cli.thing",
        "edgec.devices.thing -> edgec.passes.thing",
    ]
    assert {"edgec.ir.thing", "edgec.cli.thing"} <= set(circle(imports(planted)))
    for own, other in (("a", "b"), ("b", "a")):
        (planted / "ir" / own).mkdir()
        (planted / "ir" / own / "one.py").write_text(f"from edgec.ir.{other}.two import x\n")
        (planted / "ir" / own / "two.py").write_text("")
    direct_imports.cache_clear()
    assert list(folder_circles(imports(planted))) == ["edgec.ir.a -> edgec.ir.b -> edgec.ir.a"]
    direct_imports.cache_clear()
