"""The folder of the finished model: weights in bfloat16, tokenizer, chat template and the tokens that end a text."""

import tempfile
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import GenerationConfig, LlamaForCausalLM

from examples.stories.tokens import BOS, EOS, token_id, wrap_tokenizer


def half_precision(model: Any) -> Any:
    """Return a copy of the model in bfloat16."""
    copy = LlamaForCausalLM(model.config)
    copy.load_state_dict(model.state_dict())
    return copy.to(torch.bfloat16)


def write_model(model: Any, tokenizer: Tokenizer, out: Path) -> None:
    """Write the folder; each file appears whole."""
    out.mkdir(parents=True, exist_ok=True)
    ends = {"bos_token_id": token_id(tokenizer, BOS), "eos_token_id": token_id(tokenizer, EOS)}
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:
        half_precision(model).save_pretrained(folder)
        wrapped = wrap_tokenizer(tokenizer, model.config.max_position_embeddings)
        wrapped.save_pretrained(folder, save_jinja_files=False)
        GenerationConfig(**ends).save_pretrained(folder)
        for file in sorted(Path(folder).iterdir()):
            file.chmod(0o644)
            file.replace(out / file.name)
