"""A small but complete manifest and its files, for the tests of everything that reads bundles."""

from __future__ import annotations

from pathlib import Path

from edgec.bundle.entry_points import Limits, MethodInfo, StateInfo, TensorInfo
from edgec.bundle.findings import Delegation, Fallback, Rung
from edgec.bundle.folder import write_bundle
from edgec.bundle.manifest import Build, Ledger, LedgerRow, Manifest, ModelInfo, PassInfo, Runtime

FILES: dict[str, bytes | Path] = {
    "model.pte": bytes(range(256)) * 9,
    "tokenizer/tokenizer.json": b'{"model": {"type": "BPE"}}',
    "tokenizer/tokenizer_config.json": b'{"eos_token": "</s>"}',
    "generation_config.json": b'{"eos_token_id": 2}',
    "report.html": b"<!doctype html><title>report</title>",
}


def _rung(half: str, stage: str, max_abs: float, **fields: object) -> Rung:
    values: dict[str, object] = {
        "half": half,
        "stage": stage,
        "reference": "captured",
        "effect": "exact",
        "positions": 128,
        "max_abs": max_abs,
        "mean_abs": max_abs / 8,
        "reference_max_abs": 14.5,
        "kl_mean": 1e-9,
        "kl_max": 4e-8,
        "top1_agreement": 1.0,
        "epsilon": 1e-4,
        "budget": {"max_abs": 1e-3},
        "gated": True,
        "passed": True,
    }
    return Rung.model_validate(values | fields)


PARITY = [
    _rung("lowering", "captured", 2.1e-6, reference="eager"),
    _rung("lowering", "kv_cache", 3.4e-6),
    _rung("lowering", "artifact", 4.9e-4, reference="quantize"),
    _rung(
        "quality",
        "quantize",
        1.7,
        reference="eager",
        effect="approximate",
        kl_mean=0.021,
        kl_max=0.4,
        top1_agreement=0.953,
        budget={"kl_mean": 0.05, "top1_agreement": 0.9},
        note="held-out text, 512 positions",
    ),
]

STATES = [
    StateInfo(
        name=f"{role}_{layer}",
        layer=layer,
        role=role,
        dtype="float32",
        shape=[1, 4, 128 if layer else 512, 8],
        layout="ring" if layer else "full",
        slots=128 if layer else 512,
        window=128 if layer else None,
        bytes=4 * 8 * 4 * (128 if layer else 512),
    )
    for layer in range(2)
    for role in ("key", "value")
]

FORWARD = MethodInfo(
    name="forward_rows",
    inputs=[
        TensorInfo(name="tokens", dtype="int64", shape=[1, "S"]),
        TensorInfo(name="positions", dtype="int64", shape=["S"]),
        TensorInfo(name="logit_index", dtype="int64", shape=["K"]),
    ],
    outputs=[TensorInfo(name="logits", dtype="float32", shape=[1, "K", 512])],
    dynamic={"S": (1, 128), "K": (1, 16)},
)


def sample_manifest(**fields: object) -> Manifest:
    """A manifest without files; ``fields`` replace its own."""
    values: dict[str, object] = {
        "name": "stories260K-host",
        "model": ModelInfo(
            name="stories260K", source="models/stories260K", family="llama", parameters=260032, layers=5, licence="mit"
        ),
        "target": "host",
        "recipe": {"name": "float", "weights": {"dtype": "float32"}, "ratio": 0.1, "unused": None},
        "passes": [
            PassInfo(
                name="kv_cache",
                effect="exact",
                options={"dtype": "float32"},
                nodes_before=210,
                nodes_after=260,
                bytes_before=1040128,
                bytes_after=1204968,
            )
        ],
        "methods": [FORWARD],
        "states": STATES,
        "limits": Limits(context=512, prefill_chunk=128, logit_rows=16),
        "parity": PARITY,
        "delegation": Delegation(
            backend="xnnpack",
            delegates=11,
            delegated_operators=96,
            delegated_share=0.973,
            fallbacks=[Fallback(operator="aten::embedding.out", count=1, reason="a look-up", share=0.027)],
        ),
        "ledger": Ledger(
            artifact_bytes=1_402_880,
            weight_bytes=1_171_200,
            program_bytes=100_608,
            rows=[
                LedgerRow(
                    name="model.embed_tokens.weight",
                    dtype="float32",
                    values=32768,
                    bits=32,
                    information_bits=32,
                    copies=2,
                    bytes=262144,
                ),
                LedgerRow(
                    name="model.layers.0.mlp.up_proj.weight",
                    dtype="int4",
                    values=11008,
                    bits=4.5,
                    information_bits=4.5,
                    copies=1,
                    bytes=6192,
                ),
            ],
            overhead_reasons=["program and delegate graphs: 100,608 bytes"],
        ),
        "runtime": Runtime(
            name="executorch", version="1.5.1", backends=["XnnpackBackend"], operators=["aten::embedding.out"]
        ),
        "tools": {"edgec": "0.1.0", "executorch": "1.5.1", "torch": "2.13.0"},
        "files": [],
        "build": Build(
            created="2026-11-21T13:00:00Z",
            seconds={"capture": 4.2, "lower": 11.0, "verify": 3.5},
            peak_bytes=912_000_000,
        ),
    }
    return Manifest.model_validate(values | fields)


def write_sample(folder: Path) -> Path:
    """Write the sample bundle into ``folder``."""
    path = folder / "stories260K-host.edgec"
    write_bundle(path, sample_manifest(), FILES)
    return path
