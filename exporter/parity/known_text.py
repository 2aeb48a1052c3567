"""Whether a model has learnt any text: a folder of weights does not say whether they were ever trained.

Weights that were drawn at random give the next token about 1 / V of the probability, or less: log V nats and more per
token. Measured on the built-in text: 0.33 and 0.63 of log V for two trained models of 0.3 and 4 million parameters,
0.99 to 2.4 for 36 random ones of four architectures, three spreads of weights and three seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from edgec.exporter.parity.probe import Probe
from edgec.ir.call_plan import Call, compared_positions

# Over a few dozen tokens random logits come out up to some hundredths below log V.
_OF_CHANCE = 0.9


def knows_text(logits: Tensor, probe: Probe) -> bool:
    """Whether a model predicts the probe's text better than chance; True where the probe is not text.

    Args:
        logits: of the float model at the probe's compared positions, float [P, V].
        probe: the tokens.
    """
    return probe.source != "text" or knows_tokens(logits, probe.tokens, probe.plan)


def knows_tokens(logits: Tensor, tokens: Sequence[int], plan: Sequence[Call], first: int = 0) -> bool:
    """Whether a model predicts tokens better than chance.

    Args:
        logits: of the float model at the plan's compared positions, float [P, V].
        tokens: of the text.
        plan: the calls that feed them.
        first: the position from which on they are text.
    """
    places = enumerate(compared_positions(plan))
    known = [(row, place) for row, place in places if first <= place < len(tokens) - 1]
    following = torch.tensor([tokens[place + 1] for _, place in known])
    nll = float(cross_entropy(logits[[row for row, _ in known]].float(), following))
    return nll < _OF_CHANCE * math.log(logits.shape[-1])
