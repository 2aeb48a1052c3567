"""A stage's digest follows the imports of what made it, and nothing that only measures or shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgec.exporter import provenance as module
from edgec.exporter.provenance import EXECUTION, direct_imports, file_of, imported_modules, source_digest
from edgec.exporter.stages.protocol import LOWERING

APP_TEMPLATES = "edgec.apps.embed"


def test_a_stage_depends_on_passes_and_backends() -> None:
    rewriting = imported_modules(("edgec.exporter.stages.static_decoder",), (*EXECUTION, *LOWERING))
    assert {"edgec.passes.kv.kv_cache", "edgec.ir.program", "edgec.exporter.recipes.passes"} <= rewriting
    assert not any(name.startswith("edgec.backends.xnnpack") for name in rewriting)
    assert "edgec.backends.cpu.lower" in imported_modules(("edgec.exporter.stages.decoder",), EXECUTION)


@pytest.mark.parametrize(
    ("stage", "needed"),
    [
        ("static_decoder", "edgec.exporter.stages.decoder"),
        ("static_module", "edgec.exporter.capture.module"),
        ("calibrated", "edgec.exporter.parity.stored_matrices"),
    ],
)
def test_a_rewritten_graph_depends_on_what_its_stage_imports_but_not_on_backends(stage: str, needed: str) -> None:
    modules = imported_modules((f"edgec.exporter.stages.{stage}",), (*EXECUTION, *LOWERING))
    assert {needed, "edgec.backends.forms"} <= modules
    assert not [name for name in modules if "backends." in name and name.count(".") > 2]


def test_no_stage_depends_on_what_only_shows_or_measures() -> None:
    decoders, modules = ("decoder", "static_decoder", "calibrated"), ("module", "static_module")
    stages = (*decoders, *modules, "encoder_decoder", "vision_language")
    every = imported_modules(tuple(f"edgec.exporter.stages.{name}" for name in stages), EXECUTION)
    apart = (APP_TEMPLATES, "edgec.cli", "edgec.exporter.report", "edgec.exporter.assemble", "edgec.exporter.sweep")
    assert not [name for name in every if name.startswith((*apart, *EXECUTION))]


def test_the_state_of_a_prompt_depends_on_the_engine_that_computed_it() -> None:
    every = imported_modules(("edgec.exporter.stages.prefix",))
    assert {"edgec.runtime_py.engines.engine", "edgec.engine.compile.build"} <= every


def test_an_edit_changes_the_digest_of_those_who_import_it_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "stage.py": "def run():\n    from edgec.helper import work\n",
        "helper.py": "work = 1\n",
        "other.py": "",
        "data/table.toml": "a = 1\n",
        "data/__init__.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(module, "PACKAGE", tmp_path)

    def digests() -> tuple[str, str]:
        source_digest.cache_clear()
        direct_imports.cache_clear()
        return source_digest(("edgec.stage",)), source_digest(("edgec.other",))

    stage, other = digests()
    (tmp_path / "helper.py").write_text("work = 2\n")
    again, same = digests()
    assert again != stage and same == other
    (tmp_path / "data/table.toml").write_text("a = 2\n")  # another package's data
    assert digests() == (again, same)
    (tmp_path / "table.toml").write_text("a = 2\n")
    assert digests()[0] != again
    source_digest.cache_clear()
    direct_imports.cache_clear()


@pytest.mark.long
def test_every_module_has_a_file() -> None:
    assert all(file_of(name).is_file() for name in imported_modules(("edgec.exporter.api",)))
