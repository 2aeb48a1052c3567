"""A decoder executed by the phone's own runner under qemu, fed as a golden vector or the parity ladder says."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from edgec.bundle.folder import Bundle
from edgec.devices.qemu.emulator import CPU, EMULATOR, qemu_line
from edgec.engine.compile.abi import ARM64
from edgec.engine.compile.build import build_runner
from edgec.errors import InputError

Floats = NDArray[np.float32]
# As long as an artifact's first execution may take (runtime_py/engines/trial.py).
_LIMIT_S = 1800.0


@dataclass(frozen=True)
class EmulatedRunner:
    """The arm64 runner on one decoder; a process per call, as on a phone.

    Attributes:
        artifact: what it executes, for errors: a bundle's folder or a program.
        opening: the runner's arguments that open it.
        vocabulary: logits per row.
        threads: CPU threads; None: the runner's choice.
        cpu: qemu's name of the processor.
    """

    artifact: Path
    opening: tuple[str, ...]
    vocabulary: int
    threads: int | None = None
    cpu: str = CPU

    @classmethod
    def of_bundle(cls, bundle: Bundle, threads: int | None = None, cpu: str = CPU) -> Self:
        """The runner on a decoder's bundle."""
        vocabulary = bundle.manifest.model.vocab_size or 1
        return cls(bundle.path, ("--bundle", str(bundle.path)), vocabulary, threads, cpu)

    @classmethod
    def of_artifact(cls, artifact: Path, context: int, vocabulary: int) -> Self:
        """The runner on a decoder's program that is not in a bundle yet; ``context``: positions that it serves."""
        return cls(artifact, ("--model", str(artifact), "--context", str(context)), vocabulary)

    def replay(self, tokens: Sequence[int], prompt: int) -> Floats:
        """Feed ``prompt`` tokens at once and the others one by one.

        Returns:
            float32 [len(tokens) - prompt + 1, vocabulary]: the logits after the prompt and after each later token.

        Raises:
            InputError: E573, the runner failed or did not end.
            ToolError: E311, E312, E571 or E572, the runner is not available here.
        """
        _, logits = self.request(f"replay {prompt} {_words(tokens)}")
        return logits

    def score(self, tokens: Sequence[int]) -> Floats:
        """Feed the tokens and return all logits, float32 [len(tokens), vocabulary]; raises as ``replay``."""
        _, logits = self.request(f"score {_words(tokens)}")
        return logits

    def feed(self, tokens: Sequence[int], calls: Sequence[tuple[int, int, int]]) -> Floats:
        """Make calls of (start, size, rows); returns the last ``rows`` logits of each, float32 [P, vocabulary].

        Raises as ``replay``.
        """
        _, logits = self.request(f"feed {len(calls)} {' '.join(map(_words, calls))} {_words(tokens)}")
        return logits

    def request(self, text: str) -> tuple[dict[str, Any], Floats]:
        """Send one request of docs/runner.md; returns its event and the logits that it wrote; raises as ``replay``."""
        with TemporaryDirectory() as folder:
            logits = Path(folder) / "logits.f32"
            words = [*self.opening, "--logits", str(logits)]
            words += ["--threads", str(self.threads)] if self.threads else []
            line = qemu_line(build_runner(abi=ARM64), words, self.cpu)
            done = self._done(line, text)
            rows = np.fromfile(logits, np.float32).reshape(-1, self.vocabulary)
        return json.loads(done.stdout.splitlines()[-1]), rows

    def _done(self, line: list[str], text: str) -> subprocess.CompletedProcess[str]:
        try:
            done = subprocess.run(
                line, input=text + "\n", capture_output=True, text=True, check=False, timeout=_LIMIT_S
            )
        except subprocess.TimeoutExpired as cause:
            raise self._failed(f"it did not end within {_LIMIT_S / 60:.0f} minutes") from cause
        if done.returncode != 0:
            raise self._failed(f"exit status {done.returncode}: {' '.join(done.stderr.split())[-300:]}")
        return done

    def _failed(self, why: str) -> InputError:
        return InputError(
            f"The arm64 runner under {EMULATOR} did not execute the artifact.",
            where=str(self.artifact),
            why=why,
            fix="run edgec verify without --device to see whether the bundle works on this machine",
            code="E573",
        )


def _words(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers))
