"""``python -m edgec.runtime_py.runners.genai_worker`` lets onnxruntime-genai write texts.

The job comes as JSON on stdin; the answer goes to the file that the job names.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from edgec.runtime_py.runners.process import answer_job


def _answer(job: dict[str, Any]) -> dict[str, Any]:
    import onnxruntime_genai as runtime

    # Nothing is told to anybody about what is tried here.
    runtime.disable_telemetry_events()
    if job["hexagon"]:
        _register(runtime)
    model = runtime.Model(job["folder"])
    longest = int(_params(runtime, model).get_search_options()["max_length"])
    answer: dict[str, Any] = {"longest": longest, "bos": None, "ids": [], "chats": [], "unreadable": ""}
    try:
        tokenizer = runtime.Tokenizer(model)
        # Without it, what begins a text is left to the app.
        tokenizer.update_options(add_special_tokens="true")
        answer["bos"] = int(tokenizer.bos_token_id)
        answer["ids"] = [[int(each) for each in tokenizer.encode(text)] for text in job["texts"]]
        answer["chats"] = [_rendered(tokenizer, messages) for messages in job["chats"]]
    except Exception as error:  # its exceptions have no common class
        answer["unreadable"] = str(error)
    texts, ending, failed = [], [], ""
    try:
        ending = [_ends(runtime, model, token, job["size"]) for token in job["ends"]]
        texts = [_written(runtime, model, prompt, job["tokens"]) for prompt in job["prompts"]]
    except Exception as error:  # as above
        failed = str(error)
    return {**answer, "texts": texts, "ending": ending, "failed": failed}


def _register(runtime: Any) -> None:
    """Let sessions find Qualcomm's plug-in."""
    import onnxruntime_qnn

    runtime.register_execution_provider_library(onnxruntime_qnn.get_ep_name(), onnxruntime_qnn.get_library_path())


def _rendered(tokenizer: Any, messages: Sequence[Any]) -> str:
    """A conversation as its own reader of chat templates renders it; empty where that refuses."""
    try:
        return str(tokenizer.apply_chat_template(json.dumps(messages), add_generation_prompt=True))
    except Exception:  # as above
        return ""


def _params(runtime: Any, model: Any) -> Any:
    params = runtime.GeneratorParams(model)
    params.set_search_options(do_sample=False)
    return params


def _ends(runtime: Any, model: Any, token: int, size: int) -> bool:
    """Whether a text is at its end after a token, of a vocabulary of that size."""
    generator = runtime.Generator(model, _params(runtime, model))
    generator.append_tokens([token])
    logits = np.zeros((1, 1, size), dtype=np.float32)
    logits[0, 0, token] = 1.0
    generator.set_logits(logits)
    generator.generate_next_token()
    return bool(generator.is_done())


def _written(runtime: Any, model: Any, prompt: Sequence[int], tokens: int) -> list[int]:
    """The likeliest tokens after a prompt, up to one that ends a text."""
    generator = runtime.Generator(model, _params(runtime, model))
    generator.append_tokens(list(prompt))
    written: list[int] = []
    while len(written) < tokens and not generator.is_done():
        generator.generate_next_token()
        written.append(int(generator.get_next_tokens()[0]))
    return written


if __name__ == "__main__":
    sys.exit(answer_job(_answer))
