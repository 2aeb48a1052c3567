"""A separate process for Apple's runtime, so that a crash there does not end edgec.

    python -m edgec.backends.coreai.worker MODEL.aimodel

It describes the model's functions, then answers requests (function, inputs, states) on stdin with (outputs, states) on
stdout, as pickled numpy arrays, or with an error's text.
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
    """Load the model's functions; Linux compiles the model into a folder that is not needed once they are loaded."""
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
    """Serve one model, with stdout kept for answers: the runtime prints what it loads there."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    asyncio.run(serve(Path(sys.argv[1]), sys.stdin.buffer, answers))


if __name__ == "__main__":
    main()
