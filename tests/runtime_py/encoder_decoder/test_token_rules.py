"""The rules for tokens against transformers' own logits processors, on random logits and histories."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from edgec.bundle.generation_config import GenerationConfig
from edgec.runtime_py.encoder_decoder.token_rules import TimestampRules, TokenRules

VOCABULARY, FIRST_STAMP = 60, 40


def logits(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, VOCABULARY).astype(np.float32)


@pytest.mark.parametrize("seed", range(6))
def test_timestamps_follow_whisper_s_rules(seed: int) -> None:
    from transformers import GenerationConfig as Theirs
    from transformers.generation.logits_process import WhisperTimeStampLogitsProcessor

    config = Theirs(
        eos_token_id=2, bos_token_id=2, no_timestamps_token_id=FIRST_STAMP - 1, max_initial_timestamp_index=5
    )
    theirs = WhisperTimeStampLogitsProcessor(config, begin_index=2)
    rules = TimestampRules(FIRST_STAMP, FIRST_STAMP - 1, 2, 5)
    said: list[int] = []
    for step in range(20):
        row = logits(100 * seed + step)
        history = torch.tensor([[3, 4, *said]])
        wanted = theirs(history, torch.from_numpy(row)[None].clone())[0].numpy()
        got = rules.applied(row, said)
        # Theirs are the logits themselves where they are not masked.
        np.testing.assert_array_equal(np.isneginf(got), np.isneginf(wanted))
        said.append(int(got.argmax()))


def test_each_rule_masks_what_transformers_masks() -> None:
    from transformers.generation import logits_process as theirs

    config = GenerationConfig(
        eos_token_id=2,
        forced_bos_token_id=7,
        forced_eos_token_id=2,
        suppress_tokens=[5, 6],
        begin_suppress_tokens=[8],
        bad_words_ids=[[9]],
        no_repeat_ngram_size=2,
        min_length=4,
    )
    rules = TokenRules.of(config, prompt=1, length=9)
    own = (
        theirs.NoRepeatNGramLogitsProcessor(2),
        theirs.NoBadWordsLogitsProcessor([[9]], eos_token_id=torch.tensor([2])),
        theirs.MinLengthLogitsProcessor(4, torch.tensor([2])),
        theirs.ForcedBOSTokenLogitsProcessor(7),
        theirs.ForcedEOSTokenLogitsProcessor(9, torch.tensor([2])),
        theirs.SuppressTokensLogitsProcessor([5, 6]),
        theirs.SuppressTokensAtBeginLogitsProcessor([8], 1),
    )
    for history in ([1], [1, 7], [1, 7, 3], [1, 7, 3, 7], [1, 7, 3, 7, 3, 4, 4, 7]):
        row = logits(len(history))
        wanted = torch.from_numpy(row)[None].clone()
        for each in own:
            wanted = each(torch.tensor([history]), wanted)
        np.testing.assert_array_equal(np.isneginf(rules.applied(row, history)), np.isneginf(wanted[0].numpy()))


def test_without_rules_logits_stay() -> None:
    row = logits(0)
    np.testing.assert_array_equal(TokenRules().applied(row, [1, 2, 3]), row)
