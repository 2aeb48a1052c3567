"""``python -m edgec.runtime_py.runners.executorch_llm_worker`` lets a runner of ExecuTorch write texts.

The job comes as JSON on stdin. The runner prints what it writes; the answer goes to the file that the job names.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from edgec.runtime_py.runners.process import answer_job


def _answer(job: dict[str, Any]) -> dict[str, Any]:
    from executorch.extension.llm.runner import _llm_runner

    from edgec.runtime_py.engines.choice import choose_engine

    # Registers the operators that the artifact has, edgec's own where it has some.
    choose_engine(job["operators"], "executorch")
    constants = constant_values(job["artifact"])
    try:
        runner = getattr(_llm_runner, job["runner"])(job["artifact"], job["tokenizer"])
    except RuntimeError as error:
        if "tokenizer" not in str(error):
            raise
        return {"constants": constants, "texts": [], "failed": "", "unreadable": str(error)}
    asked = {"max_new_tokens": job["tokens"], "num_bos": job["begins"]}
    config = _llm_runner.GenerationConfig(echo=False, temperature=0.0, **asked)
    texts, failed = [], ""
    try:
        texts = [_written(runner, _given(prompt), config) for prompt in job["prompts"]]
    except RuntimeError as error:
        failed = str(error)
    return {"constants": constants, "texts": texts, "failed": failed, "unreadable": ""}


def constant_values(artifact: str) -> dict[str, list[int]]:
    """What the methods without inputs say."""
    from executorch.extension.pybindings import portable_lib

    program = portable_lib._load_program(artifact)
    names = [program.get_method_name(index) for index in range(program.num_methods())]
    constant = [name for name in names if program.method_meta(name).num_inputs() == 0]
    return {name: [int(value) for value in program.load_method(name)([])] for name in constant}


def _given(prompt: Any) -> Any:
    """A text, or the pieces of a prompt as the multimodal runner takes them."""
    import numpy as np
    import torch
    from executorch.extension.llm.runner import _llm_runner

    if isinstance(prompt, str):
        return prompt
    return [
        _llm_runner.make_image_input(torch.from_numpy(np.load(part)))
        if isinstance(part, str)
        else _llm_runner.make_token_input(part)
        for part in prompt
    ]


def _written(runner: Any, prompt: Any, config: Any) -> dict[str, Any]:
    """How many tokens the runner read, and the pieces that it writes.

    A part of a character, which Python cannot be told, ends the writing; then nothing says what was read.
    """
    pieces: list[str] = []
    read: list[int] = []
    runner.reset()
    with suppress(UnicodeDecodeError):
        runner.generate(prompt, config, pieces.append, lambda stats: read.append(stats.num_prompt_tokens))
    return {"prompt_tokens": read[0] if read else None, "pieces": pieces}


if __name__ == "__main__":
    sys.exit(answer_job(_answer))
