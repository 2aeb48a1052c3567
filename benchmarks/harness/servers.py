"""The servers that `benchmarks.serving --servers` compares, as jobs of `http_load`: edgec's, and llama.cpp's own."""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.harness.artifacts import Workshop
from benchmarks.harness.subjects import Subject
from benchmarks.peers.llama_server import llama_server

# Random weights end an answer as they like; each must have its length.
_LLAMA_FIELDS = {"ignore_eos": True, "cache_prompt": False}


def served(subject: Subject) -> Subject:
    """The subject with a tokenizer, which every server asks for."""
    return replace(subject, options={**subject.options, "tokenizer": True})


def server_job(shop: Workshop, subject: Subject, job: Mapping[str, Any]) -> dict[str, Any]:
    """The job of `http_load` for a subject's server, of the one for its runtime.

    Raises:
        ProcessFailed: llama.cpp's server cannot be made.
    """
    port = _free_port()
    command = _llama(shop, job, port) if subject.peer else _edgec(job, port)
    longest = max(load.get("prompt_tokens", 128) for load in job["loads"])
    return {
        "command": [str(part) for part in command],
        "port": port,
        "model": Path(job["artifact"]).stem,
        "vocab_size": subject.model.config["vocab_size"],
        "most": job["context"] - longest - 1,
        "fields": _LLAMA_FIELDS if subject.peer else {},
        "loads": job["loads"],
        "threads": job["threads"],
    }


def _edgec(job: Mapping[str, Any], port: int) -> list[Any]:
    sizes = ("--threads", job["threads"], "--sessions", job["sequences"])
    return [sys.executable, "-m", "edgec", "serve", job["artifact"], "--port", port, *sizes]


def _llama(shop: Workshop, job: Mapping[str, Any], port: int) -> list[Any]:
    sizes = ("--threads", job["threads"], "--parallel", job["sequences"])
    context = ("--ctx-size", job["context"] * job["sequences"])
    return [llama_server(shop.build), "--model", job["artifact"], "--port", port, *sizes, *context]


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])
