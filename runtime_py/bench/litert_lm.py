"""A ``.litertlm`` bundle as ``edgec bench`` measures it: LiteRT-LM's engine from its wheel, on this machine's CPU.

    a text of N tokens -> run_prefill -> run_decode_async -> a piece of text for each token, timed as it comes

LiteRT-LM takes texts and ends them, so that a text is looked for that has as many tokens as are asked for, and after
which the model writes as many as are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from edgec.bundle.folder import Bundle
from edgec.devices.job import Job
from edgec.errors import InputError, ToolError
from edgec.installation import install_command
from edgec.processor_share import available_cores
from edgec.runtime_py.bench.lap import Lap
from edgec.runtime_py.runners.litert_lm import NAME, is_installed, litert_lm_version

FORMAT: Final = "litertlm"
_PARTS: Final = (" the", " a", "Once upon a time, ", "1 2 3 ", "a", "\n- ", " of")
"""What texts are made of, again and again: what follows one of them ends, but not what follows every one."""
_TRIES: Final = 8


class LitertLmLaps:
    """Generations by LiteRT-LM's engine, each in a session of its own."""

    def __init__(self, artifact: Path, job: Job, name: str = "") -> None:
        """Open a ``.litertlm``, which errors call by ``name``, or else by its file's.

        Raises:
            InputError: E156, threads out of range.
            ToolError: E908, it is not installed, or does not open the file.
        """
        self.job, self.name = job, name or artifact.name
        self.threads = job.threads or available_cores()
        self._engine = _opened(artifact, self.name, self.threads)

    @property
    def facts(self) -> dict[str, Any]:
        """What a record says of the engine."""
        return {"threads": self.threads, "engine": "litert-lm", "runtime": f"{NAME} {litert_lm_version()}, XNNPACK"}

    def lap(self) -> Lap:
        """Continue the text, the likeliest token each time.

        Raises:
            InputError: E962, there is no such text.
        """
        read, times = self._continued(self._text)
        if (read, len(times) - 1) != (self.job.prompt_tokens, self.job.new_tokens):
            raise self._unmeasured(f"after {read} tokens it wrote {len(times) - 1}, otherwise than at first")
        ttft_s, *gaps = (after - before for before, after in pairwise(times))
        return Lap(ttft_s, tuple(gaps))

    @cached_property
    def _text(self) -> str:
        """A text of the tokens that are asked for, after which it writes those that are asked for."""
        wanted, seen = (self.job.prompt_tokens, self.job.new_tokens), []
        for text in self._texts(self.job.prompt_tokens - (self._engine.bos_token_id is not None)):
            read, times = self._continued(text)
            if (read, len(times) - 1) == wanted:
                return text
            seen.append(f"{len(times) - 1} after {read}")
        raise self._unmeasured(f"it wrote {', '.join(seen)}" if seen else "no text that was tried has so many tokens")

    def _texts(self, tokens: int) -> Iterator[str]:
        for part in _PARTS:
            text = repeated(part, tokens, lambda given: len(self._engine.tokenize(given)))
            if text:
                yield text

    def _continued(self, text: str) -> tuple[int, list[float]]:
        """How many tokens it reads, and when it begins and each token comes."""
        greedy = import_module("litert_lm").SamplerConfig(top_k=1, temperature=1.0, seed=1)
        given = {"max_output_tokens": self.job.new_tokens, "sampler_config": greedy}
        with closing(self._engine.create_session(apply_prompt_template=False, **given)) as session:
            times = [perf_counter()]
            session.run_prefill([text])
            times += [perf_counter() for _ in session.run_decode_async()]
            return session.get_benchmark_info().last_prefill_token_count, times

    def _unmeasured(self, why: str) -> InputError:
        job = self.job
        return InputError(
            f"{NAME} cannot be measured with {job.prompt_tokens} tokens and {job.new_tokens} after them.",
            where=self.name,
            why=f"it takes texts and ends them, and {why}",
            fix="ask for fewer tokens after the prompt (--new-tokens), or another --prompt-tokens",
            code="E962",
        )


def unprofiled(bundle: Bundle) -> ToolError:
    """Why its operators are not timed."""
    return ToolError(
        f"{NAME} times no operators.",
        where=bundle.manifest.name,
        why="its engine reports tokens and seconds alone",
        fix="leave --profile out, or profile a bundle for host",
        code="E350",
    )


def repeated(part: str, tokens: int, count: Callable[[str], int]) -> str:
    """A text repeated until it has so many tokens; empty where no number of times gives them."""
    times = tokens
    for _ in range(_TRIES):
        found = count(part * times) if times > 0 else 0
        if found == tokens or times < 1:
            break
        times += round((tokens - found) * times / found) or (1 if found < tokens else -1)
    return part * times if times > 0 and found == tokens else ""


def _opened(artifact: Path, name: str, threads: int) -> Any:
    if threads < 1:
        raise InputError(f"{threads} threads were asked for.", where="--threads", fix="give 1 or more", code="E156")
    if not is_installed():
        raise _closed(name, "litert-lm-api is not installed", install_command("litert"))
    litert_lm = import_module("litert_lm")
    litert_lm.set_min_log_severity(litert_lm.LogSeverity.ERROR)
    try:
        return litert_lm.Engine(
            str(artifact.resolve()),
            backend=litert_lm.Backend.CPU(thread_count=threads),
            enable_benchmark=True,
            # Weights as its kernels read them are not written beside the artifact.
            cache_dir=":nocache",
        )
    except RuntimeError as error:
        raise _closed(name, str(error), "check the version of litert-lm-api") from error


def _closed(name: str, why: str, fix: str) -> ToolError:
    return ToolError(f"{NAME} did not open this model.", where=name, why=why, fix=fix, code="E908")
