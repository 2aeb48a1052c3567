"""The hub: what is cached is used without the network, and every failure names its cause. No network is touched."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import errors

from edgec.errors import InputError
from edgec.exporter.sources.resolve import resolve
from tests.exporter.sources.hub_cache import COMMIT, offline_cache, snapshot
from tests.exporter.tiny_sentence_encoder import save_sentence_encoder
from tests.exporter.tiny_sources import write_config, write_llama


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty hub cache, offline."""
    return offline_cache(tmp_path, monkeypatch)


def test_a_cached_model_is_found_offline(cache: Path) -> None:
    folder = write_llama(snapshot(cache))
    source = resolve("owner/tiny")
    assert (source.name, source.source, source.revision) == ("tiny", "owner/tiny", COMMIT)
    assert source.path == folder


def test_a_model_that_is_not_cached_offline(cache: Path) -> None:
    with pytest.raises(InputError) as caught:
        resolve("owner/absent")
    assert caught.value.code == "E103"
    assert "HF_HUB_OFFLINE" in caught.value.fix


def test_a_cached_repository_of_several_gguf_files_needs_a_choice(cache: Path) -> None:
    folder = snapshot(cache)
    folder.mkdir(parents=True)
    for name in ("tiny-Q4_K_M.gguf", "tiny-Q8_0.gguf"):
        (folder / name).write_bytes(b"GGUF")
    with pytest.raises(InputError, match="E114"):
        resolve("owner/tiny")


def test_a_cached_config_without_weights(cache: Path) -> None:
    folder = write_config(snapshot(cache))
    (folder / "README.md").write_text("# Tiny\n")
    with pytest.raises(InputError, match="E112"):
        resolve("owner/tiny")


def _http(kind: type[errors.HfHubHTTPError], status: int) -> Exception:
    response: Any = SimpleNamespace(status_code=status, headers={}, request=None)
    return kind(f"{status} from the hub", response=response)


FAILURES = {
    "gated": (_http(errors.GatedRepoError, 403), "E102", "hf auth login"),
    "absent": (_http(errors.RepositoryNotFoundError, 404), "E101", "spelling"),
    "no such revision": (_http(errors.RevisionNotFoundError, 404), "E101", "--revision"),
    "server error": (_http(errors.HfHubHTTPError, 503), "E103", "local folder"),
    "no connection": (ConnectionError("unreachable"), "E103", "HF_HUB_OFFLINE"),
    "disk full": (OSError(errno.ENOSPC, "No space left on device"), "E148", "HF_HOME"),
}


@pytest.mark.parametrize("case", FAILURES.values(), ids=FAILURES)
def test_failures_of_the_hub(case: tuple[Exception, str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    raised, code, advice = case

    def fail(*_args: object, **_options: object) -> str:
        raise raised

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(InputError) as caught:
        resolve("owner/tiny", revision="v9")
    assert caught.value.code == code
    assert advice in caught.value.fix


def test_a_bug_is_not_dressed_up_as_a_hub_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object, **_options: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(ZeroDivisionError):
        resolve("owner/tiny")


@pytest.mark.parametrize("allowed", [False, True])
def test_the_weights_of_a_sentence_encoders_parts_are_fetched_too(
    allowed: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Other folders of a repository hold copies in other formats."""
    folder, asked = save_sentence_encoder(tmp_path / COMMIT, dense=("Tanh",)), []
    (folder / "2_Dense" / "model.safetensors").rename(tmp_path / "dense")

    def record(_repo: str, *, allow_patterns: list[str], ignore_patterns: list[str], **_options: object) -> str:
        asked.append(allow_patterns)
        if "2_Dense/*.safetensors" in allow_patterns and not ignore_patterns:
            (tmp_path / "dense").rename(folder / "2_Dense" / "model.safetensors")
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", record)
    assert folder / "2_Dense" / "model.safetensors" in resolve("owner/tiny", allow_pickle=allowed).files
    assert len(asked) == 2 and ("2_Dense/*.bin" in asked[1]) is allowed


@pytest.mark.parametrize("listed", ["[", "{}", '[{"path": "../x"}, {"path": "a*"}, {"path": 3}, 4]'])
def test_a_damaged_list_of_parts_fetches_nothing(listed: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder, asked = write_llama(tmp_path / COMMIT), []
    (folder / "modules.json").write_text(listed)

    def record(_repo: str, *, allow_patterns: list[str], **_options: object) -> str:
        asked.append(allow_patterns)
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", record)
    with pytest.raises(InputError, match="E641"):
        resolve("owner/tiny")
    assert len(asked) == 1 and resolve("owner/tiny", task="text-generation").kind == "decoder"


@pytest.mark.parametrize(
    ("allowed", "expected"), [(False, set()), (True, {"*.bin", "*.pt", "*.pth", "*.ckpt", "*.py"})]
)
def test_pickles_and_code_are_fetched_only_when_allowed(
    allowed: bool, expected: set[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    def record(_repo: str, *, allow_patterns: list[str], **_options: object) -> str:
        asked.extend(allow_patterns)
        return str(write_llama(tmp_path / COMMIT))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", record)
    resolve("owner/tiny", allow_pickle=allowed, trust_remote_code=allowed)
    assert {pattern for pattern in asked if pattern.endswith((".bin", ".pt", ".pth", ".ckpt", ".py"))} == expected
