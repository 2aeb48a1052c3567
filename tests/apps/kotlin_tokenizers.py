"""The generated tokenizers in a separate process: compiled once, then queried line by line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from edgec.apps.embed.project import PACKAGE
from edgec.apps.embed.tokenizer_plan import tokenizer_values
from tests.apps.kotlin_compiler import STAND_INS, compiled
from tests.apps.project_files import in_android
from tests.apps.tokenizer_samples import sample

_SHARED = (
    *("AddedTokens", "CharacterClasses", "Decoders", "MergeTable", "Normalizers", "Splitters", "Tokenizer"),
    *("TokenizerFile", "BytePairModel", "UnigramModel", "WordPieceModel", "WordLevelModel"),
    *("TokenizerSteps", "TextStream", "EdgecException", "Facts", "JsonText"),
)


class KotlinTokenizers:
    """The process of the compiled Kotlin tokenizers; every answer is JSON."""

    def __init__(self, names: Iterable[str], folder: Path) -> None:
        for name in names:
            sample(name).save(str(folder / f"{name}.json"))
            (folder / f"{name}.steps.json").write_text(json.dumps(tokenizer_values(folder / f"{name}.json")))
        sources = [self._source(folder, name) for name in _SHARED]
        main = (STAND_INS / "TokenizerMain.kt.txt").read_text().replace("PACKAGE", PACKAGE)
        (folder / "Main.kt").write_text(main)
        classes = compiled([STAND_INS / "JsonReader.kt", *sources, folder / "Main.kt"], folder / "classes")
        line = ["java", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-cp", classes, f"{PACKAGE}.MainKt"]
        self._process = subprocess.Popen(
            [*line, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    @staticmethod
    def _source(folder: Path, name: str) -> Path:
        path = folder / f"{name}.kt"
        path.write_text(in_android(name))
        return path

    def ask(self, name: str, **request: Any) -> Any:
        """The answer to a request, see TokenizerMain."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"name": name, **request}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the Kotlin ended: see its message above"
        return json.loads(answer)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
