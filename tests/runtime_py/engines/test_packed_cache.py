"""A lock of packed weights is a file of the cache; a link in its place leads elsewhere and is not followed."""

from __future__ import annotations

import os
from pathlib import Path

from edgec.runtime_py.engines import packed_cache
from edgec.runtime_py.engines.open_artifact import artifact_digest
from edgec.runtime_py.model import load


def test_removing_never_touches_what_a_link_leads_to(tmp_path: Path) -> None:
    target, absent = tmp_path / "mine", tmp_path / "not there"
    target.write_text("mine")
    os.utime(target, (1, 1))
    for name, leads in (("a.packed", target), ("b.packed", absent)):
        (tmp_path / name).write_bytes(b"x" * 100)
        (tmp_path / f"{name}.lock").symlink_to(leads)
    assert packed_cache.mark_used(tmp_path / "a.packed", max_bytes=0) == 0
    assert target.read_text() == "mine" and target.stat().st_mtime == 1 and not absent.exists()


def test_loading_never_writes_through_a_link(tiny_bundle: Path, tmp_path: Path) -> None:
    bundle = load(tiny_bundle, threads=1).bundle
    packed = packed_cache.packed_file(artifact_digest(bundle), tmp_path)
    assert packed is not None
    target = tmp_path / "mine"
    target.write_text("mine")
    packed.with_name(packed.name + ".lock").symlink_to(target)
    from edgec.runtime_py.engines.engine import EngineModel

    EngineModel(bundle.artifact_path, packed=packed)
    assert target.read_text() == "mine"
