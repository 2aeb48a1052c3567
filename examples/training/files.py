"""The files of a run: its checkpoint, and the folder of the finished model."""

import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, LlamaForCausalLM

from examples.training.settings import Progress, Session, Settings
from examples.training.tokens import BOS, EOS, token_id, wrap_tokenizer


def write_aside(path: Path, content: Any) -> None:
    """Write a checkpoint so that it appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(path.name + ".part")
    with aside.open("wb") as file:
        torch.save(content, file)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def save_checkpoint(session: Session, progress: Progress) -> None:
    """Save everything that a later run needs to continue."""
    content = {
        "progress": asdict(progress),
        "tokenizer": session.tokenizer.to_str(),
        "model": session.model.state_dict(),
        "optimizer": session.optimizer.state_dict(),
    }
    write_aside(session.settings.checkpoint, content)


def load_checkpoint(settings: Settings) -> dict[str, Any] | None:
    """Return the checkpoint to continue from, if there is one and the run may use it."""
    if not (settings.resume and settings.checkpoint.exists()):
        return None
    content: dict[str, Any] = torch.load(settings.checkpoint, weights_only=True)
    return content


def half_precision(model: Any) -> Any:
    """Return a copy of the model in bfloat16."""
    copy = LlamaForCausalLM(model.config)
    copy.load_state_dict(model.state_dict())
    return copy.to(torch.bfloat16)


def export_model(session: Session, out: Path) -> None:
    """Write the model folder; each file appears whole."""
    out.mkdir(parents=True, exist_ok=True)
    tokenizer, config = session.tokenizer, session.model.config
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:
        half_precision(session.model).save_pretrained(folder)
        wrapped = wrap_tokenizer(tokenizer, config.max_position_embeddings)
        wrapped.save_pretrained(folder, save_jinja_files=False)
        ends = {"bos_token_id": token_id(tokenizer, BOS), "eos_token_id": token_id(tokenizer, EOS)}
        GenerationConfig(**ends).save_pretrained(folder)
        for file in sorted(Path(folder).iterdir()):
            file.chmod(0o644)
            file.replace(out / file.name)
