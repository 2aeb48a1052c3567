"""``python -m edgec.runtime_py.runners.litert_lm_worker`` lets LiteRT-LM's engine write texts.

The job comes as JSON on stdin; the answer goes to the file that the job names.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

_ONE_THREAD = 1
_NO_CACHE = ":nocache"


def main() -> int:
    """Do the job."""
    job = json.load(sys.stdin)
    with TemporaryDirectory() as folder:
        if job["vulkan"]:
            _choose_vulkan(job["vulkan"], Path(folder))
        Path(job["answer"]).write_text(json.dumps(_answer(job)))
    return 0


def _choose_vulkan(library: str, folder: Path) -> None:
    """Let Vulkan's loader take this implementation."""
    driver = folder / "driver.json"
    content = {"file_format_version": "1.0.0", "ICD": {"library_path": library, "api_version": "1.1.0"}}
    driver.write_text(json.dumps(content))
    os.environ["VK_ICD_FILENAMES"] = os.environ["VK_DRIVER_FILES"] = str(driver)


def _answer(job: dict[str, Any]) -> dict[str, Any]:
    if job["vulkan"]:
        # On a GPU, 0.18.1 lets a session read what an earlier one of the same engine left.
        return {"begins": None, "ends": [], "ids": [], "rendered": [], **_written(job, lambda: closing(_engine(job)))}
    with closing(_engine(job)) as engine:
        answer = {
            "begins": engine.bos_token_id,
            "ends": [token for tokens in engine.eos_token_ids for token in tokens],
            "ids": [list(engine.tokenize(text)) for text in job["texts"]],
            "rendered": [_rendered(engine, chat) for chat in job["chats"]],
        }
        return {**answer, **_written(job, lambda: nullcontext(engine))}


def _engine(job: dict[str, Any]) -> Any:
    import litert_lm

    kinds = litert_lm.Backend
    backend = kinds.GPU() if job["vulkan"] else kinds.CPU(thread_count=_ONE_THREAD)
    return litert_lm.Engine(job["file"], backend=backend, enable_benchmark=True, cache_dir=_NO_CACHE)


def _written(job: dict[str, Any], opened: Callable[[], AbstractContextManager[Any]]) -> dict[str, Any]:
    """What it writes after prompts and conversations, each by an engine that is opened for it, up to where it fails."""
    import litert_lm

    greedy = litert_lm.SamplerConfig(top_k=1, temperature=1.0, seed=1)
    given = {"max_output_tokens": job["tokens"], "sampler_config": greedy}
    asked: list[tuple[Callable[..., dict[str, Any]], Any]] = [
        *((_continued, each) for each in job["prompts"]),
        *((_replied, each) for each in job["chats"]),
    ]
    written: list[dict[str, Any]] = []
    try:
        for write, what in asked:
            with opened() as engine:
                written.append(write(engine, what, given))
    except RuntimeError as error:
        return {"written": written, "failed": str(error)}
    return {"written": written, "failed": ""}


def _continued(engine: Any, prompt: str, given: dict[str, Any]) -> dict[str, Any]:
    """What it writes after a text."""
    with closing(engine.create_session(apply_prompt_template=False, **given)) as session:
        session.run_prefill([prompt])
        pieces = [part.texts[0] for part in session.run_decode_async()]
        return {"read": session.get_benchmark_info().last_prefill_token_count, "pieces": pieces}


def _rendered(engine: Any, chat: Sequence[dict[str, str]]) -> str:
    """The last turn of a conversation, as it follows those before it."""
    *before, last = chat
    with closing(engine.create_conversation(messages=before)) as conversation:
        return str(conversation.render_message_to_string(last))


def _replied(engine: Any, chat: Sequence[dict[str, str]], given: dict[str, Any]) -> dict[str, Any]:
    """What it answers to a conversation."""
    *before, last = chat
    with closing(engine.create_conversation(messages=before, **given)) as conversation:
        pieces = [*_texts(conversation.send_message_async(last))]
        return {"read": conversation.get_benchmark_info().last_prefill_token_count, "pieces": pieces}


def _texts(messages: Iterable[Any]) -> Iterable[str]:
    """The texts of the messages of a reply."""
    for message in messages:
        for part in message.to_json()["content"]:
            yield part["text"]


if __name__ == "__main__":
    sys.exit(main())
