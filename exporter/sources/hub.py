"""Fetch a model's snapshot from the Hugging Face hub, or explain precisely why that is not possible."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from edgec.bundle.hub.failures import hub_failure
from edgec.bundle.limited_json import limited_bytes, parse_json
from edgec.exporter.sources.files.model_folder import CONFIG
from edgec.exporter.sources.files.model_forms import ADAPTER_CONFIG

_DATA = ("*.safetensors", "*.json", "*.jinja", "*.model", "*.txt", "README.md", "LICENSE*")
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
_CODE = ("*.py",)
_ADAPTER = "adapter_model"
# Copies of the same weights in other formats, and training leftovers.
_IGNORED = ("original/*", "onnx/*", "openvino/*", "consolidated*", f"{_ADAPTER}*", "*/*.safetensors", "*/*.bin")
# Names without characters that patterns give a meaning to.
_PLAIN_PATH = re.compile(r"\w[\w.\-]*(/\w[\w.\-]*){0,3}")
_LARGEST_LIST = 1 << 20


def fetch_snapshot(
    repo: str, *, revision: str | None = None, allow_pickle: bool = False, trust_remote_code: bool = False
) -> Path:
    """Download a model (or find it in the local cache) and return its snapshot folder.

    ``HF_HUB_OFFLINE``, ``HF_HOME`` and the stored login are honoured; pickles and code are fetched only when allowed.

    Raises:
        InputError: E101 (no such model or revision), E102 (gated), E103 (hub out of reach and not in the cache) or
            E875 (too many requests).
    """
    patterns = [*_DATA, *(_PICKLES if allow_pickle else ()), *(_CODE if trust_remote_code else ())]
    folder = fetch_files(repo, revision, patterns, _IGNORED)
    if (folder / ADAPTER_CONFIG).exists() and not (folder / CONFIG).exists():
        return fetch_files(repo, revision, (f"{_ADAPTER}.safetensors",), ())
    weights = ("*.safetensors", *(_PICKLES if allow_pickle else ()))
    parts = [f"{part}/{pattern}" for part in _parts(folder) for pattern in weights]
    return fetch_files(repo, revision, parts, ()) if parts else folder


def fetch_files(repo: str, revision: str | None, patterns: Sequence[str], ignored: Sequence[str]) -> Path:
    """Download the files that match shell patterns, less the ignored ones, and return the snapshot's folder.

    Raises:
        InputError: E101, E102, E103 or E148, as ``fetch_snapshot``.
    """
    from huggingface_hub import snapshot_download

    try:
        folder = snapshot_download(
            repo, revision=revision, allow_patterns=list(patterns), ignore_patterns=list(ignored)
        )
    except Exception as error:  # Sorted by type there; anything unknown is re-raised.
        raise hub_failure("model", repo, revision, error) from error
    return Path(str(folder))


def _parts(folder: Path) -> tuple[str, ...]:
    """The folders of a sentence encoder's parts, which may hold weights; what is wrong with the list is said later."""
    try:
        listed = parse_json(limited_bytes(folder / "modules.json", _LARGEST_LIST))
    except (OSError, ValueError):
        return ()
    parts = [part.get("path") for part in listed if isinstance(part, dict)] if isinstance(listed, list) else []
    return tuple(path for path in parts if isinstance(path, str) and _PLAIN_PATH.fullmatch(path))


def listed_files(repo: str, revision: str | None = None) -> list[str]:
    """The paths of all files of a repository, asked from the hub.

    Raises:
        InputError: E101, E102 or E103, as ``fetch_snapshot``.
    """
    from huggingface_hub import HfApi

    try:
        return list(HfApi().list_repo_files(repo, revision=revision))
    except Exception as error:  # Sorted by type there; anything unknown is re-raised.
        raise hub_failure("model", repo, revision, error) from error


def fetch_config(repo: str, revision: str | None = None) -> Path:
    """Download a model's config.json alone (or find it in the local cache).

    Raises:
        InputError: E101, E102 or E103, as ``fetch_snapshot``.
    """
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(repo, "config.json", revision=revision))
    except Exception as error:  # Sorted by type there; anything unknown is re-raised.
        raise hub_failure("model", repo, revision, error) from error
