"""A random 2-layer Llama lowered straight to the artifact's contract, and a bundle around it (about 20 s).

It does not use edgec's exporter, so the runtime is tested against transformers and ExecuTorch alone.
"""

from __future__ import annotations

import fcntl
import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from transformers import AttentionInterface, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.masking_utils import AttentionMaskInterface

from edgec.bundle.entry_points import Limits, MethodInfo, TensorInfo
from edgec.bundle.folder import write_bundle
from edgec.bundle.manifest import Build, Manifest, ModelInfo, Runtime

CONTEXT, CHUNK, ROWS, VOCAB = 96, 16, 8, 320
OPERATORS = ["llama::custom_sdpa.out", "llama::update_cache.out"]
TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
TEXT = "Once upon a time there was a little girl called Lily. She had a red ball and she liked to play outside. "


def tiny_model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "head_dim": 8, "vocab_size": VOCAB}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": CONTEXT}
    special = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "initializer_range": 0.3}
    return LlamaForCausalLM(LlamaConfig(**shape, **heads, **special)).eval()


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<pad>", "<s>", "</s>", "<|user|>", "<|assistant|>", "<|system|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "chat_template": TEMPLATE}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


class _Cached(torch.nn.Module):
    """The model with ExecuTorch's own cache and attention operators in place of transformers' attention."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        super().__init__()
        self.model = model
        config = model.config
        for layer in range(config.num_hidden_layers):
            for name in ("k", "v"):
                cache = torch.zeros(1, CONTEXT, config.num_key_value_heads, config.head_dim)
                self.register_buffer(f"{name}{layer}", cache)
        config._attn_implementation = "test_cached"
        AttentionInterface.register("test_cached", self._attend)
        AttentionMaskInterface.register("test_cached", lambda *a, **k: None)

    def _attend(self, module: Any, q: Any, k: Any, v: Any, *_: Any, scaling: float, **__: Any) -> tuple[Any, None]:
        keys, values = getattr(self, f"k{module.layer_idx}"), getattr(self, f"v{module.layer_idx}")
        torch.ops.llama.update_cache(k.transpose(1, 2), keys, self._start)
        torch.ops.llama.update_cache(v.transpose(1, 2), values, self._start)
        query = q.transpose(1, 2)
        return torch.ops.llama.custom_sdpa(query, keys, values, self._start, None, 0.0, True, scaling), None

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor, logit_index: torch.Tensor) -> torch.Tensor:
        self._start = positions[0].item()
        torch._check(self._start >= 0)
        torch._check(self._start < CONTEXT)
        hidden = self.model.model(input_ids=tokens, position_ids=positions[None], use_cache=False).last_hidden_state
        result: torch.Tensor = self.model.lm_head(hidden[:, logit_index])
        return result


def lower(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], dynamic: dict[str, Any] | None = None) -> bytes:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower
    from executorch.exir.passes import MemoryPlanningPass
    from executorch.exir.passes.sym_shape_eval_pass import ConstraintBasedSymShapeEvalPass

    with torch.no_grad():
        exported = torch.export.export(module, inputs, dynamic_shapes=dynamic, strict=False)
    check = EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True)
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()], compile_config=check)
    plan = MemoryPlanningPass(alloc_graph_input=False)
    config = ExecutorchBackendConfig(memory_planning_pass=plan, sym_shape_eval_pass=ConstraintBasedSymShapeEvalPass())
    return bytes(edge.to_executorch(config).buffer)


def lower_decoder(model: LlamaForCausalLM) -> bytes:
    import executorch.extension.llm.custom_ops.custom_ops  # noqa: F401
    from torch.export import Dim

    length, rows = Dim("s", min=1, max=CHUNK), Dim("k", min=1, max=ROWS)
    dynamic = {"tokens": {1: length}, "positions": {0: length}, "logit_index": {0: rows}}
    return lower(_Cached(model), (torch.ones(1, 8, dtype=torch.int64), torch.arange(8), torch.arange(3)), dynamic)


def manifest(**changes: Any) -> Manifest:
    tensors: list[tuple[str, list[int | str]]] = [("tokens", [1, "s"]), ("positions", ["s"]), ("logit_index", ["k"])]
    fields: dict[str, Any] = {
        "name": "tiny",
        "model": ModelInfo(
            name="tiny", source="tiny", family="llama", parameters=31_000, vocab_size=VOCAB, trained=False
        ),
        "target": "host",
        "recipe": {"name": "float"},
        "passes": [],
        "methods": [
            MethodInfo(
                name="forward_rows",
                inputs=[TensorInfo(name=name, dtype="int64", shape=shape) for name, shape in tensors],
                outputs=[TensorInfo(name="logits", dtype="float32", shape=[1, "k", VOCAB])],
                dynamic={"s": (1, CHUNK), "k": (1, ROWS)},
            )
        ],
        "limits": Limits(context=CONTEXT, prefill_chunk=CHUNK, logit_rows=ROWS),
        "parity": [],
        "runtime": Runtime(name="executorch", version="1.5.1", backends=["XnnpackBackend"], operators=OPERATORS),
        "tools": {},
        "files": [],
        "build": Build(created="2026-01-01T00:00:00Z"),
    }
    return Manifest.model_validate(fields | changes)


@lru_cache(maxsize=1)
def built() -> tuple[Path, Path]:
    """(folder of the float model, bundle), made once per test run: its processes share it with the stage cache."""
    folder = Path(os.environ["EDGEC_CACHE_DIR"]) / "tests" / "tiny-decoder"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        paths = folder / "model", folder / "tiny.edgec"
        return paths if paths[1].exists() else build(folder)


def build(folder: Path) -> tuple[Path, Path]:
    """Write the float model to ``folder``/model and its bundle to ``folder``/tiny.edgec; returns both paths."""
    model, tokenizer = tiny_model(), tiny_tokenizer()
    model.generation_config.eos_token_id = [2]
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "tokenizer")
    files: dict[str, bytes | Path] = {f"tokenizer/{path.name}": path for path in (folder / "tokenizer").iterdir()}
    files["generation_config.json"] = json.dumps({"eos_token_id": [2]}).encode()
    files["model.pte"] = lower_decoder(model)
    model_info = manifest().model.model_copy(update={"source": str(folder / "model")})
    write_bundle(folder / "tiny.edgec", manifest(model=model_info), files)
    return folder / "model", folder / "tiny.edgec"
