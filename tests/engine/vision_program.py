"""What the runner makes of images, as a program of its own: ``vision_entry.cpp``, compiled with sanitizers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgec.bundle.entry_points import VisionLanguageInfo
from edgec.bundle.image_preparation import PREPARATION, PreparationFile, preparation_bytes
from tests.engine.compiled import PARTS, compiled
from tests.engine.sanitized import MEMORY, sanitizing, why_not

_FAULT = 99


@dataclass(frozen=True)
class VisionProgram:
    """The program; its calls fail where a sanitizer finds a fault."""

    path: Path

    def run(self, *words: object) -> subprocess.CompletedProcess[bytes]:
        """Run it with these words."""
        options = {"ASAN_OPTIONS": f"exitcode={_FAULT}", "UBSAN_OPTIONS": f"exitcode={_FAULT}"}
        done = subprocess.run([self.path, *map(str, words)], capture_output=True, check=False, env=options)
        assert done.returncode in (0, 1), done.stderr.decode(errors="replace")[:3000]
        return done

    def made(self, *words: object) -> bytes:
        """What it writes."""
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refusal(self, *words: object) -> str:
        """Why it refuses."""
        done = self.run(*words)
        assert done.returncode == 1 and not done.stdout
        return done.stderr.decode()

    def scaled(self, image: Any, size: tuple[int, int], how: int, file: Path, *more: object) -> NDArray[np.uint8]:
        """An image of Pillow in another size, [height, width, 3]."""
        write_ppm(image, file)
        made = self.made("scaled", file, *size, how, *more)
        return np.frombuffer(made, np.uint8).reshape(size[1], size[0], 3)

    def tiles(self, image: Any, bundle: Path, shape: Sequence[int], images: int = 1) -> NDArray[np.float32]:
        """An image's tiles [N, *shape]."""
        write_ppm(image, bundle / "image.ppm")
        made = self.made("tiles", bundle, bundle / "image.ppm", images)
        return np.frombuffer(made, np.float32).reshape(-1, *shape)

    def text(self, prompt: str, bundle: Path, sizes: Sequence[tuple[int, int]]) -> str:
        """A prompt with the texts of images of these sizes."""
        return self.made("text", bundle, prompt, *(edge for size in sizes for edge in size)).decode()


def vision_program() -> VisionProgram:
    """Compile it; with sanitizers where this machine's compiler has them."""
    return VisionProgram(compiled("vision_entry", PARTS if why_not(MEMORY) else sanitizing(MEMORY)))


def write_vision(folder: Path, info: VisionLanguageInfo, file: PreparationFile) -> Path:
    """The part of a bundle that the program reads."""
    text = json.dumps({"vision_language": info.model_dump(mode="json")}, sort_keys=True, indent=2)
    (folder / "manifest.json").write_text(text + "\n")
    (folder / PREPARATION).parent.mkdir(exist_ok=True)
    (folder / PREPARATION).write_bytes(preparation_bytes(file))
    return folder


def write_ppm(image: Any, path: Path) -> None:
    """A binary PPM file of an image of Pillow."""
    path.write_bytes(b"P6 %d %d 255\n" % image.size + np.asarray(image).tobytes())
