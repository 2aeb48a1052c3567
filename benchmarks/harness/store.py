"""Finished pieces of work, kept as JSON files, so that an interrupted run continues where it stopped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Store:
    """A folder of results, stored by the hash of everything that they depend on."""

    folder: Path

    def known(self, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """The result kept under a key, or None."""
        path = self._path(key)
        return json.loads(path.read_text())["result"] if path.is_file() else None

    def once(self, key: Mapping[str, Any], work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The kept result, or that of ``work``, which is kept now."""
        kept = self.known(key)
        return self.keep(key, work()) if kept is None else kept

    def keep(self, key: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        """Keep a result; the file appears whole."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps({"key": key, "result": result}))
        partial.rename(path)
        return result

    def _path(self, key: Mapping[str, Any]) -> Path:
        text = json.dumps(key, sort_keys=True)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"
