"""The process in which Apple's runtime executes: its faults end a process, and it should not be edgec's.

    python -m edgec.backends.coreai.worker MODEL.aimodel

Says what the model's functions are, then answers requests (function, inputs, states) on stdin with (outputs, states) on
stdout, as pickled numpy arrays; an error's text in their place.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

Arrays = Mapping[str, Any]


async def serve(path: Path, requests: BinaryIO, answers: BinaryIO) -> None:
    """Load the model and answer until the requests end."""
    functions = await _loaded(path)
    _say(answers, {name: _described(function.desc) for name, function in functions.items()})
    while True:
        try:
            name, inputs, states = pickle.load(requests)
        except EOFError:
            return
        try:
            _say(answers, await _called(functions[name], inputs, states))
        except Exception as cause:  # whatever the runtime says goes to the user
            _say(answers, str(cause) or type(cause).__name__)


async def _loaded(path: Path) -> dict[str, Any]:
    """Linux compiles the model into a folder of its own, which is not needed once the functions are loaded."""
    from coreai.authoring import AIModelAsset

    async with AIModelAsset.load(path).executable() as model:
        return {name: model.load_function(name) for name in model.function_names}


def _described(desc: Any) -> dict[str, list[tuple[str, str, tuple[int, ...]]]]:
    """Name, dtype and shape of every input, output and state."""
    kinds = {
        "inputs": (desc.input_names, desc.input_descriptor),
        "outputs": (desc.output_names, desc.output_descriptor),
        "states": (desc.state_names, desc.state_descriptor),
    }
    return {
        kind: [(name, of(name).dtype, tuple(of(name).shape)) for name in names] for kind, (names, of) in kinds.items()
    }


async def _called(function: Any, inputs: Arrays, states: Arrays) -> tuple[Arrays, Arrays]:
    from coreai.runtime import NDArray

    held = {name: NDArray(array) for name, array in states.items()}
    results = await function({name: NDArray(array) for name, array in inputs.items()}, state=held)
    return _copied(results), _copied(held)


def _copied(arrays: Arrays) -> Arrays:
    return {name: np.array(array.numpy()) for name, array in arrays.items()}


def _say(answers: BinaryIO, value: Any) -> None:
    pickle.dump(value, answers, protocol=5)
    answers.flush()


def main() -> None:
    """Keep the answers' stream to ourselves: the runtime announces what it loads on stdout."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    asyncio.run(serve(Path(sys.argv[1]), sys.stdin.buffer, answers))


if __name__ == "__main__":
    main()
