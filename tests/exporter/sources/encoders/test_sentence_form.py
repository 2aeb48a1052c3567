"""What the files beside a sentence encoder say, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgec.errors import InputError
from edgec.exporter.sources.encoders.sentence_form import DenseForm, SentenceForm, most_tokens, sentence_form
from tests.exporter.tiny_sentence_encoder import write

PARTS = [
    {"type": f"sentence_transformers.models.{name}", "path": ""} for name in ("Transformer", "Pooling", "Normalize")
]
DENSE = {"type": "sentence_transformers.models.Dense", "path": ""}
POOLED = {"pooling_mode_mean_tokens": True}
IDENTITY = {"in_features": 4, "out_features": 4, "activation_function": "torch.nn.modules.linear.Identity"}


def told(folder: Path, parts: object, pooling: object) -> SentenceForm | None:
    write(folder / "modules.json", parts)
    write(folder / "config.json", pooling)
    return sentence_form(folder)


def test_a_folder_without_the_list_is_none(tmp_path: Path) -> None:
    assert sentence_form(tmp_path) is None


def test_pooling_normalisation_and_length_are_read(tmp_path: Path) -> None:
    write(tmp_path / "sentence_bert_config.json", {"max_seq_length": 256})
    form = told(tmp_path, PARTS, {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})
    assert form is not None
    assert (form.pooling, form.normalised, form.most_tokens, len(form.files)) == ("cls", True, 256, 3)
    newer = told(tmp_path, PARTS[:2], {"pooling_mode": "lasttoken", "pooling_mode_mean_tokens": True})
    assert newer is not None and (newer.pooling, newer.normalised) == ("lasttoken", False)


def test_normalisation_of_something_else_is_refused(tmp_path: Path) -> None:
    parts = [*PARTS[:2], {**PARTS[2], "path": "2_Normalize"}]
    write(tmp_path / "2_Normalize" / "config.json", {"module_input_name": "sentence_embedding"})
    form = told(tmp_path, parts, POOLED)
    assert form is not None and tmp_path / "2_Normalize" / "config.json" in form.files
    write(tmp_path / "2_Normalize" / "config.json", {"module_input_name": "token_embeddings"})
    with pytest.raises(InputError, match="module_input_name") as raised:
        told(tmp_path, parts, POOLED)
    assert raised.value.code == "E641"


def test_a_prompt_is_pooled_unless_the_authors_leave_it_out(tmp_path: Path) -> None:
    left_out = {**POOLED, "include_prompt": False}
    plain = told(tmp_path, PARTS, left_out)
    assert plain is not None and plain.pools_prompt and plain.prompts is None
    write(tmp_path / "config_sentence_transformers.json", {"prompts": {"query": "q: "}})
    form, usual = told(tmp_path, PARTS, left_out), told(tmp_path, PARTS, POOLED)
    assert form is not None and usual is not None and form.prompts is not None
    assert (form.pools_prompt, usual.pools_prompt) == (False, True)
    assert form.prompts.prompts == {"query": "q: ", "document": ""}


def test_dense_layers_are_read(tmp_path: Path) -> None:
    dense = {
        "in_features": 32,
        "out_features": 24,
        "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    form = told(tmp_path, [*PARTS[:2], DENSE, PARTS[2]], {**POOLED, **dense})
    assert form is not None and form.dense == (DenseForm(tmp_path, 32, 24, False, "Identity"),)


@pytest.mark.parametrize(
    ("stated", "positions", "first", "asked", "most"),
    [
        (256, 512, 0, None, 256),
        (None, 514, 2, None, 512),
        (600, 512, 0, None, 512),
        (None, None, 0, None, 512),
        (None, 32768, 0, None, 2048),
        (None, 32768, 0, 8192, 8192),
        (256, 512, 0, 900, 512),
    ],
)
def test_a_text_has_at_most_as_many_tokens_as_there_are_positions(
    stated: int | None, positions: int | None, first: int, asked: int | None, most: int
) -> None:
    form = SentenceForm("mean", (), True, stated, ())
    assert most_tokens(form, {"max_position_embeddings": positions}, first, asked) == most


@pytest.mark.parametrize(
    ("parts", "pooling"),
    [
        ({}, {}),
        (["Transformer"], {}),
        ([], {}),
        ([*PARTS, DENSE], {"pooling_mode_mean_tokens": True}),
        ([PARTS[0], DENSE, *PARTS[1:]], {"pooling_mode_mean_tokens": True}),
        ([*PARTS[:2], DENSE], {"pooling_mode_mean_tokens": True}),
        ([*PARTS[:2], DENSE], {**POOLED, "in_features": 0, "out_features": 4, "activation_function": "x.Tanh"}),
        ([*PARTS[:2], DENSE], {**POOLED, "in_features": 4, "out_features": 4, "activation_function": "os.system"}),
        ([*PARTS[:2], DENSE], {**POOLED, "in_features": 4, "out_features": 4, "activation_function": "my.nn.GELU"}),
        ([*PARTS[:2], DENSE], {**POOLED, **IDENTITY, "use_residual": True}),
        ([*PARTS[:2], DENSE], {**POOLED, **IDENTITY, "module_input_name": "token_embeddings"}),
        ([*PARTS[:2], DENSE], {**POOLED, **IDENTITY, "module_output_name": "other"}),
        ([{**PARTS[0], "type": "custom_st.Transformer"}, PARTS[1]], POOLED),
        ([{**PARTS[0], "path": "0_Transformer"}, PARTS[1]], POOLED),
        (PARTS, {"pooling_mode": "weightedmean", "pooling_mode_mean_tokens": True}),
        ([PARTS[0], {**PARTS[1], "path": "../.."}], {"pooling_mode_mean_tokens": True}),
        ([PARTS[0], {**PARTS[1], "path": "/etc"}], {"pooling_mode_mean_tokens": True}),
        ([PARTS[0], {**PARTS[1], "path": "absent"}], {"pooling_mode_mean_tokens": True}),
        (PARTS, {}),
        (PARTS, {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}),
        (PARTS, {"pooling_mode_weightedmean_tokens": True}),
        (PARTS, {"pooling_mode": ["mean"]}),
        (PARTS, []),
    ],
)
def test_what_is_not_known_is_refused(tmp_path: Path, parts: object, pooling: object) -> None:
    with pytest.raises(InputError) as error:
        told(tmp_path, parts, pooling)
    assert error.value.code == "E641"
