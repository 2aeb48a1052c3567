"""GGUF models of the hub: what was asked for is chosen by a part of its name, and what is wrong is said by name."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import huggingface_hub
import pytest

from edgec.errors import InputError
from edgec.exporter.dimensions.parameters import read_config
from edgec.exporter.sources.hub_gguf import chosen, hub_choice
from edgec.exporter.sources.resolve import resolve
from tests.exporter.sources.gguf_models import FAMILIES, tiny_model, write_model
from tests.exporter.sources.hub_cache import offline_cache, snapshot

MANY = [
    *("README.md", "m-Q4_K_M.gguf", "m-Q4_K_S.gguf", "m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf"),
    *("mmproj-m-f16.gguf", "m.imatrix.gguf", "big/m-Q6_K.gguf"),
]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("Q4_K_M", ["m-Q4_K_M.gguf"]),
        ("q4_k_m", ["m-Q4_K_M.gguf"]),
        ("m-Q4_K_S.gguf", ["m-Q4_K_S.gguf"]),
        ("Q8_0", ["m-Q8_0-00001-of-00002.gguf"]),
        ("m-Q8_0-00001-of-00002.gguf", ["m-Q8_0-00001-of-00002.gguf"]),
        ("Q6_K", ["big/m-Q6_K.gguf"]),
        ("Q4_K", ["m-Q4_K_M.gguf", "m-Q4_K_S.gguf"]),
        ("f16", []),
        ("Q2_K", []),
    ],
)
def test_a_part_of_a_name_chooses(choice: str, expected: list[str]) -> None:
    assert chosen(MANY, choice) == expected


def test_where_a_choice_ends_a_name_that_file_is_meant() -> None:
    assert chosen(["a-Q4_K.gguf", "a-Q4_K_M.gguf"], "Q4_K") == ["a-Q4_K.gguf"]
    assert chosen(["a-IQ4_0.gguf", "a-Q4_0.gguf"], "Q4_0") == ["a-Q4_0.gguf"]


@pytest.mark.parametrize(
    "model", ["owner/name", "package.module:make", "module:make", "owner/name:", "o/n:../x", "./a:b"]
)
def test_other_forms_choose_no_file(model: str) -> None:
    assert hub_choice(model) is None


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cached repository ``owner/tiny``, offline; returns its snapshot's folder."""
    folder = snapshot(offline_cache(tmp_path, monkeypatch))
    folder.mkdir(parents=True)
    return folder


def _listing(monkeypatch: pytest.MonkeyPatch, files: Sequence[str]) -> None:
    monkeypatch.setattr(huggingface_hub.HfApi, "list_repo_files", lambda *_args, **_options: list(files))


def test_the_chosen_file_of_several_is_read(hub: Path, tmp_path: Path) -> None:
    made = write_model(tmp_path / "made.gguf", FAMILIES["llama"], tiny_model(FAMILIES["llama"]))
    for name in ("tiny-Q4_K_M.gguf", "tiny-Q8_0.gguf"):
        shutil.copy(made, hub / name)
    source = resolve("owner/tiny:q8_0")
    assert (source.name, source.source, source.kind) == ("tiny-Q8_0", "owner/tiny:q8_0", "decoder")
    assert read_config("owner/tiny:Q4_K_M")["model_type"] == "llama"


@pytest.mark.parametrize(("choice", "why"), [("Q4_K", "Q4_K_M.gguf, tiny-Q4_K_S.gguf"), ("Q2_K", "it holds tiny-Q5")])
def test_no_file_or_several_of_that_name(choice: str, why: str, hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tiny-Q4_K_M.gguf", "tiny-Q4_K_S.gguf"):
        (hub / name).write_bytes(b"GGUF")
    _listing(monkeypatch, ["tiny-Q5_K_M.gguf"])
    with pytest.raises(InputError, match="E829") as caught:
        resolve(f"owner/tiny:{choice}")
    assert why in caught.value.why and caught.value.fix.startswith("Name one of them: owner/tiny:tiny-Q")


def test_a_file_that_is_not_cached_offline(hub: Path) -> None:
    with pytest.raises(InputError, match="E103"):
        resolve("owner/tiny:Q4_K_M")


def test_a_repository_of_gguf_files_alone_says_what_can_be_asked_for(
    hub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (hub / "README.md").write_text("# Tiny\n")
    _listing(monkeypatch, MANY)
    with pytest.raises(InputError, match="E829") as caught:
        resolve("owner/tiny")
    assert "m-Q8_0-00001-of-00002.gguf" in caught.value.why and "mmproj" not in caught.value.why
    assert caught.value.fix == "Name one of them: owner/tiny:m-Q4_K_M.gguf"


def test_a_revision_travels_along(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def record(_repo: str, *, revision: str | None, **_options: object) -> str:
        asked.append(revision)
        return str(hub)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", record)
    _listing(monkeypatch, [])
    with pytest.raises(InputError, match="it holds no GGUF model"):
        resolve("owner/tiny:Q4_K_M", revision="v2")
    assert asked == ["v2"]
