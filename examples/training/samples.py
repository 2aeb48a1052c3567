"""A look at the finished model: its loss on the held-out text, and samples of what it writes."""

from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from examples.training.model import held_out_loss
from examples.training.settings import HeldOutLoss, Settings
from examples.training.tokens import BOS, build_corpus, token_id

PROMPTS = ("Prince Andrew looked at", "KING RICHARD III:\n")


def continuation(model: Any, tokenizer: Any, prompt: str, sampled: bool) -> str:
    """Let the model continue a prompt, greedily or with temperature 0.8 and top-p 0.8."""
    ids = torch.tensor([tokenizer.encode(prompt, add_special_tokens=not prompt.startswith(BOS))])
    choice = {"do_sample": True, "temperature": 0.8, "top_p": 0.8} if sampled else {"do_sample": False}
    made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=120, **choice)
    return str(tokenizer.decode(made[0, ids.shape[1] :], skip_special_tokens=True))


def show_samples(model: Any, tokenizer: Any) -> None:
    """Print continuations of fixed prompts."""
    chat = [{"role": "user", "content": "What news from the city? Are the people at peace?"}]
    prompts = [tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True), *PROMPTS]
    for prompt in prompts:
        for sampled in (False, True):
            method = "temperature 0.8, top-p 0.8" if sampled else "greedy"
            print(f"--- {method}\n{prompt}|{continuation(model, tokenizer, prompt, sampled)}\n")


def measure_folder(settings: Settings) -> HeldOutLoss:
    """Measure the exported model, in float32 arithmetic, and show what it writes."""
    torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    model = LlamaForCausalLM.from_pretrained(settings.out, dtype=torch.float32)
    tokenizer = Tokenizer.from_file(str(settings.out / "tokenizer.json"))
    corpus = build_corpus(tokenizer, settings.texts, settings.length)
    result = held_out_loss(model, corpus, token_id(tokenizer, BOS), settings.length)
    show_samples(model.eval(), PreTrainedTokenizerFast.from_pretrained(settings.out))
    return result
