"""Read damaged checkpoints, each within two seconds of CPU time and 500 MB; run as a process of its own.

    python -m tests.exporter.sources.bounded_reading FOLDER     ->     a line of JSON before and after each file

The kernel ends the process where a file takes more CPU time, and refuses what would be more memory.
"""

from __future__ import annotations

import json
import random
import resource
import signal
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from time import process_time
from typing import Any

from edgec.bundle.gguf_header import read_gguf_header
from edgec.errors import InputError
from edgec.exporter.sources.resolve import resolve
from edgec.exporter.sources.stored_parameters import stored_parameters
from tests.exporter.sources.gguf_forms import write_forms
from tests.exporter.sources.gguf_models import Family, finish, model_writer, tiny_model
from tests.exporter.sources.mutations import damaged_json
from tests.exporter.sources.packed_writers import gptq_parts, rounded, write_packed

CPU_SECONDS, MEMORY = 2.0, 500 << 20
COUNTS: Mapping[str, int] = {"quantised": 130, "split": 90, "gptq": 100}
_KINDS = ("Q4_K", "Q6_K", "MXFP4", "Q8_0", "TQ2_0", "IQ4_NL", "Q3_K")
_NUMBERS = (0, 1, 2**7, 2**31, 2**32 - 1, 2**60, 2**63, 2**64 - 1)
_SETTINGS = {"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": False, "desc_act": True, "lm_head": False}
_SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "head_dim": 8}


@dataclass(frozen=True)
class Base:
    """A sound checkpoint: what is given as MODEL, and the files that are damaged with what damages each."""

    model: Path
    damages: Sequence[tuple[Path, Callable[[random.Random], bytes]]]


def damaged_bytes(content: bytes, end: int, dice: random.Random) -> bytes:
    """A bit, a byte or a whole number before ``end`` changed, bytes taken out or put in, or a file that is cut."""
    at, way = dice.randrange(4, end - 8), dice.randrange(6)
    if way == 0:
        return content[:at] + bytes([content[at] ^ 1 << dice.randrange(8)]) + content[at + 1 :]
    if way == 1:
        return content[:at] + struct.pack("<Q", dice.choice(_NUMBERS)) + content[at + 8 :]
    if way == 2:
        return content[:at] + content[at + dice.randrange(1, 64) :]
    if way == 3:
        return content[:at] + dice.randbytes(dice.randrange(1, 40)) + content[at:]
    if way == 4:
        return content[: dice.randrange(len(content))]
    # Whatever lies there, codes and scales as well.
    at = dice.randrange(4, len(content) - 64)
    return content[:at] + bytes([dice.choice((0, 255))]) * 64 + content[at + 64 :]


def _gguf_base(files: Sequence[Path]) -> Base:
    damages = []
    for file in files:
        content, tensors = file.read_bytes(), read_gguf_header(file).tensors
        end = min((tensor.offset for tensor in tensors), default=len(content))
        damages.append((file, lambda dice, content=content, end=end: damaged_bytes(content, end, dice)))
    return Base(files[0], damages)


def _quantised(folder: Path) -> Base:
    kinds = cycle(_KINDS)
    return _gguf_base([write_forms(folder / "m.gguf", lambda name: next(kinds), {"num_hidden_layers": 1})])


def _split(folder: Path) -> Base:
    family = Family("llama", "llama", {**_SMALL, "num_hidden_layers": 2}, pairs=True)
    writer = model_writer(folder / "m.gguf", family, tiny_model(family), "Q4_0", split_max_tensors=8)
    finish(writer, folder / "m.gguf")
    return _gguf_base(sorted(folder.glob("*.gguf")))


def _gptq(folder: Path) -> Base:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**_SMALL, num_attention_heads=4, num_key_value_heads=2, vocab_size=64)
    LlamaForCausalLM(config).save_pretrained(folder / "float")

    def parts(name: str, weight: Any) -> Any:
        made = rounded(weight, 4, 32, False)
        return gptq_parts(made), made.values

    write_packed(folder / "m", _SETTINGS, parts, folder / "float")
    described, weights = folder / "m" / "config.json", folder / "m" / "model.safetensors"
    document, content = json.loads(described.read_text()), weights.read_bytes()
    end = 8 + struct.unpack("<Q", content[:8])[0]

    def settings(dice: random.Random) -> bytes:
        damage = next(iter(damaged_json(document["quantization_config"], 1, dice.randrange(1 << 30))))
        return json.dumps({**document, "quantization_config": json.loads(damage.content)}).encode()

    return Base(folder / "m", [(described, settings), (weights, lambda dice: damaged_bytes(content, end, dice))])


_BASES: Mapping[str, Callable[[Path], Base]] = {"quantised": _quantised, "split": _split, "gptq": _gptq}


def outcome(model: Path) -> str:
    """``read``, or the code of the error; anything else is raised."""
    try:
        source = resolve(str(model))
        assert source.weights is not None
        for name in source.weights.names():
            source.weights.tensor(name)
        stored = stored_parameters(source)
        for name, form in (stored.forms if stored else {}).items():
            if stored and form.kept_scheme is not None:
                stored.integers(name).integers[:]
    except InputError as error:
        return error.code
    return "read"


def _resident(what: str) -> int:
    """``VmRSS``, ``VmHWM`` or ``VmSize`` of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(what))


def _bounded(model: Path) -> dict[str, Any]:
    """The outcome of a file, the CPU seconds and the bytes that it took at its worst."""
    Path("/proc/self/clear_refs").write_text("5")
    before, started = _resident("VmRSS"), process_time()
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        said = outcome(model)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return {"outcome": said, "cpu_s": process_time() - started, "bytes": max(0, _resident("VmHWM") - before)}


def damaged_files(name: str, base: Base) -> Iterator[str]:
    """Damage one file after the other in its place; what was damaged is told while it is so."""
    dice = random.Random(name)
    for number in range(COUNTS[name]):
        file, damage = base.damages[number % len(base.damages)]
        sound = file.read_bytes()
        file.write_bytes(damage(dice))
        yield f"{name} {number}, {file.name}"
        file.write_bytes(sound)


def main(folder: Path) -> None:
    """Read sound files once, so that all libraries are loaded, then damaged ones within bounds."""
    for name, make in _BASES.items():
        place = folder / name
        place.mkdir()
        base = make(place)
        assert outcome(base.model) == "read", name
        most = _resident("VmSize") + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
        for what in damaged_files(name, base):
            print(json.dumps({"file": what}), flush=True)
            print(json.dumps(_bounded(base.model)), flush=True)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
