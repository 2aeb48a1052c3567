"""Whether a peer runs the same model: its logits against those of transformers in float32.

A job has ``folder`` (config.json, weights), ``tokens`` and the peer's ``logits``, [tokens][vocabulary].
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any


def compare(job: Mapping[str, Any]) -> dict[str, float]:
    """The share of equal top-1 tokens, the largest difference and the largest logit."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(job["folder"], dtype=torch.float32)
    with torch.no_grad():
        reference_logits = model(torch.tensor([job["tokens"]])).logits[0]
    peer_logits = torch.tensor(job["logits"])
    return {
        "top1_agreement": (peer_logits.argmax(-1) == reference_logits.argmax(-1)).float().mean().item(),
        "max_abs": (peer_logits - reference_logits).abs().max().item(),
        "logits_max_abs": reference_logits.abs().max().item(),
    }


if __name__ == "__main__":
    print("\n" + json.dumps(compare(json.load(sys.stdin))))
