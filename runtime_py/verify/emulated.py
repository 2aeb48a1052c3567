"""A decoder's bundle executed by the phone's own runner under qemu, fed as a golden vector says."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgec.bundle.folder import Bundle
from edgec.devices.qemu.emulator import CPU, EMULATOR, qemu_line
from edgec.devices.runner.abi import ARM64
from edgec.devices.runner.build import build_runner
from edgec.errors import InputError

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class EmulatedRunner:
    """The arm64 runner on one bundle; a process per call, as on a phone.

    Attributes:
        bundle: a decoder's bundle.
        threads: CPU threads; None: the runner's choice.
        cpu: qemu's name of the processor.
    """

    bundle: Bundle
    threads: int | None = None
    cpu: str = CPU

    def replay(self, tokens: Sequence[int], prompt: int) -> Floats:
        """Feed ``prompt`` tokens at once and the others one by one.

        Returns:
            float32 [len(tokens) - prompt + 1, vocabulary]: the logits after the prompt and after each later token.

        Raises:
            InputError: E573, the runner failed.
            ToolError: E311, E312, E571 or E572, the runner is not available here.
        """
        _, logits = self.request(f"replay {prompt} {' '.join(map(str, tokens))}")
        return logits

    def score(self, tokens: Sequence[int]) -> Floats:
        """Feed the tokens and return all logits, float32 [len(tokens), vocabulary]; raises as ``replay``."""
        _, logits = self.request(f"score {' '.join(map(str, tokens))}")
        return logits

    def request(self, text: str) -> tuple[dict[str, Any], Floats]:
        """Send one request of docs/runner.md; returns its event and the logits that it wrote; raises as ``replay``."""
        with TemporaryDirectory() as folder:
            logits = Path(folder) / "logits.f32"
            words = ["--bundle", str(self.bundle.path), "--logits", str(logits)]
            words += ["--threads", str(self.threads)] if self.threads else []
            line = qemu_line(build_runner(abi=ARM64), words, self.cpu)
            done = subprocess.run(line, input=text + "\n", capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise _failed(self.bundle, done)
            rows = np.fromfile(logits, np.float32).reshape(-1, self.bundle.manifest.model.vocab_size or 1)
        return json.loads(done.stdout.splitlines()[-1]), rows


def _failed(bundle: Bundle, done: subprocess.CompletedProcess[str]) -> InputError:
    return InputError(
        f"The arm64 runner under {EMULATOR} did not execute the bundle.",
        where=str(bundle.path),
        why=f"exit status {done.returncode}: {' '.join(done.stderr.split())[-300:]}",
        fix="run edgec verify without --device to see whether the bundle works on this machine",
        code="E573",
    )
