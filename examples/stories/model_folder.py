"""The folder of the finished model: weights in bfloat16, tokenizer, chat template and the tokens that end a text."""

import tempfile
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import GenerationConfig

from examples.training.files import half_precision
from examples.training.tokens import BOS, EOS, token_id, wrap_tokenizer

# A conversation is a story told in turns: what everybody wrote so far, without names, is continued.
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{% if not loop.first %}{{ ' ' }}{% endif %}"
    "{{ message['content'] | trim }}{% endfor %}"
)


def write_model(model: Any, tokenizer: Tokenizer, out: Path) -> None:
    """Write the folder; each file appears whole."""
    out.mkdir(parents=True, exist_ok=True)
    ends = {"bos_token_id": token_id(tokenizer, BOS), "eos_token_id": token_id(tokenizer, EOS)}
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:
        half_precision(model).save_pretrained(folder)
        wrap_tokenizer(tokenizer, model.config.max_position_embeddings, CHAT_TEMPLATE).save_pretrained(
            folder, save_jinja_files=False
        )
        GenerationConfig(**ends).save_pretrained(folder)
        for file in sorted(Path(folder).iterdir()):
            file.chmod(0o644)
            file.replace(out / file.name)
