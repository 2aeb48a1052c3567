"""The first execution of an artifact on this machine, in another process, which it may crash.

ExecuTorch checks that a program is well formed, not that it makes sense: one flipped bit under valid checksums can end
the process that loads or executes it. A digest that was executed here is noted in the cache, in ``executed/``, for each
build of the engine, so that later loads cost nothing; an export executes its artifact and leaves the note itself.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgec.errors import EdgecError, InputError
from edgec.installation import cache_root, run_worker
from edgec.runtime_py.engines.engine_library import library
from edgec.runtime_py.engines.executor import BY_METHODS, Array, EngineName
from edgec.runtime_py.engines.open_artifact import artifact_digest, open_executor

if TYPE_CHECKING:
    from edgec.bundle.entry_points import Limits, MethodInfo
    from edgec.bundle.folder import Bundle

# Packing and one prefill of the largest models take minutes; longer than this means that it never ends.
LIMIT_S: Final = 1800.0
WORKER: Final = "edgec.runtime_py.verify.trial_worker"
_known: set[str] = set()


def was_executed(digest: str, engine: EngineName) -> bool:
    """Whether an artifact with this sha256 was executed here by this build of the engine."""
    name = _note_name(digest, engine)
    return name in _known or (_folder() / name).is_file()


def note_executed(digest: str, engine: EngineName) -> None:
    """Note that an artifact was executed here; for this process only where the cache cannot be written."""
    name = _note_name(digest, engine)
    _known.add(name)
    with suppress(OSError):
        _folder().mkdir(parents=True, exist_ok=True)
        (_folder() / name).touch()


def try_first(bundle: Bundle, engine: EngineName) -> None:
    """Execute an artifact in another process, unless it was executed here before or is only simulated.

    A refusal by the runtime there is not reported, because the runtime will refuse here as well.

    Raises:
        InputError: E168, that process died; E169, it did not end.
    """
    if engine in BY_METHODS or was_executed(artifact_digest(bundle), engine):
        return
    if in_another_process(bundle, engine)["executed"]:
        note_executed(artifact_digest(bundle), engine)


def in_another_process(bundle: Bundle, engine: EngineName, **more: Any) -> Mapping[str, Any]:
    """Run a job on this bundle in the worker and return its answer.

    Raises:
        InputError: E168, the process died; E169, it did not end.
    """
    job = json.dumps({"bundle": str(bundle.path.resolve()), "engine": engine, **more})
    try:
        done = run_worker(WORKER, job, LIMIT_S)
    except subprocess.TimeoutExpired as cause:
        raise _endless(bundle) from cause
    if done.returncode != 0:
        raise _fatal(bundle, done)
    answer: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def execute_once(bundle: Bundle, engine: EngineName) -> None:
    """Load an artifact and call it: a decoder with a chunk of tokens and one more, other models' methods with zeros.

    Raises:
        InputError: E157, the runtime refuses the artifact.
    """
    manifest = bundle.manifest
    decoder = manifest.limits and _calls(manifest.limits, manifest.model.vocab_size)
    several = manifest.encoder_decoder or manifest.vision_language or manifest.audio_language
    called = manifest.methods if several else manifest.methods[:1]
    calls = {"": decoder} if decoder else {method.name: (_zeros(method),) for method in called}
    for method, inputs in calls.items():
        executor = open_executor(engine, bundle.artifact_path, method, artifact_digest(bundle))
        for each in inputs:
            # Zeros may be meaningless to a model; it may refuse them and still be sound.
            with suppress(EdgecError):
                executor.run(each)


def _calls(limits: Limits, vocab_size: int | None) -> Sequence[Sequence[Array]]:
    chunk = min(limits.prefill_chunk, limits.context)
    rows = np.arange(min(limits.logit_rows, chunk))
    tokens = np.arange(chunk)[None] % (vocab_size or 1)
    first = (tokens, np.arange(chunk), rows)
    more = (tokens[:, :1], np.array([chunk]), np.array([0]))
    return (first, more) if chunk < limits.context else (first,)


def _zeros(method: MethodInfo) -> Sequence[Array]:
    sizes = [[size if isinstance(size, int) else method.dynamic[size][1] for size in i.shape] for i in method.inputs]
    return [
        np.zeros(shape, info.dtype.removeprefix("torch.")) for shape, info in zip(sizes, method.inputs, strict=True)
    ]


def _folder() -> Path:
    return cache_root() / "executed"


def _note_name(digest: str, engine: EngineName) -> str:
    build = Path(library()._name).parent.name if engine == "edgec" else f"executorch-{version('executorch')}"
    return f"{digest}-{build}"


def _fatal(bundle: Bundle, done: subprocess.CompletedProcess[str]) -> InputError:
    ended = signal.Signals(-done.returncode).name if done.returncode < 0 else f"exit status {done.returncode}"
    memory = done.returncode == -signal.SIGKILL
    # A process that aborts says why; before a memory fault there is only the CPU probing's log of every start.
    spoke = done.returncode > 0 or done.returncode == -signal.SIGABRT
    said = "; ".join(done.stderr.strip().splitlines()[-2:])[-300:] if spoke else ""
    return InputError(
        "The artifact ended the process that executed it.",
        where=str(bundle.artifact_path),
        why=f"{ended} in a separate process, which protects this one{': ' + said if said else ''}",
        fix="SIGKILL usually means that memory ran out: close other programs"
        if memory
        else "export again; do not use it",
        code="E168",
    )


def _endless(bundle: Bundle) -> InputError:
    return InputError(
        "The artifact's first execution did not end.",
        where=str(bundle.artifact_path),
        why=f"a separate process was stopped after {LIMIT_S / 60:g} minutes",
        fix="export again; do not use it",
        code="E169",
    )
