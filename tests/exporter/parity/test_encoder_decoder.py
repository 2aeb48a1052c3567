"""Sources where shapes are fixed: filled up, told what is padding, and refused by encoders that are not told."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from edgec.errors import InputError
from edgec.exporter.parity.encoder_decoder import SourceProbe, named_memory, refuse_seen_padding
from edgec.exporter.sources.encoders.encoder_decoder import fixed_source, source_of, states_of, with_decoder_numbers
from edgec.exporter.sources.hf_config import plain_config
from edgec.ir.memory_inputs import USED
from edgec.runtime_py.encoder_decoder.fixed_source import filled
from tests.encoder_decoders import tiny_encoder_decoder


def test_a_text_is_filled_up_and_says_where_it_ends() -> None:
    text, used = filled(np.array([[5, 6, 7]]), 5)
    assert text.tolist() == [[5, 6, 7, 0, 0]] and text.dtype == np.int64
    assert used.tolist() == [[1, 1, 1, 0, 0]] and used.dtype == np.float32


def test_only_texts_of_a_fixed_length_are_filled_up() -> None:
    source = torch.tensor([[5, 6, 7]])
    assert len(SourceProbe("input_ids", (source,)).inputs(source)) == 1
    probe = SourceProbe("input_ids", (source,), 4)
    text, used = probe.inputs(source)
    assert text.tolist() == [[5, 6, 7, 0]] and used.tolist() == [[1, 1, 1, 0]]
    assert torch.equal(probe.used[0], used)


@pytest.mark.parametrize(("family", "shape", "states"), [("bart", (1, 96), 96), ("t5", (1, 512), 512)])
def test_a_text_has_as_many_tokens_as_the_encoder_reads_and_512_at_most(
    family: str, shape: tuple[int, int], states: int
) -> None:
    model = tiny_encoder_decoder(family)
    config = with_decoder_numbers(plain_config(model.config))
    reads = source_of(model, config, {})
    assert fixed_source(reads).shape == shape and states_of(reads, config) == states


def test_a_window_of_features_has_the_length_that_it_has() -> None:
    model = tiny_encoder_decoder("whisper")
    config = with_decoder_numbers(plain_config(model.config))
    reads = source_of(model, config, {})
    assert fixed_source(reads) == reads and states_of(reads, config) == 50


def test_what_is_known_of_a_source_has_names_in_pairs_and_then_its_padding() -> None:
    values = [torch.zeros(1)] * 5
    assert list(named_memory(values[:4])) == ["cross_key_0", "cross_value_0", "cross_key_1", "cross_value_1"]
    assert list(named_memory(values))[-1] == USED


def test_an_encoder_whose_states_move_with_padding_is_refused() -> None:
    read = torch.randn(1, 3, 8, generator=torch.Generator().manual_seed(0))
    states = torch.cat([read, torch.ones(1, 2, 8)], 1)
    refuse_seen_padding(states, read)
    states[0, 2, 1] += 1e-2
    with pytest.raises(InputError, match="padding after a text") as caught:
        refuse_seen_padding(states, read)
    assert caught.value.code == "E534"
