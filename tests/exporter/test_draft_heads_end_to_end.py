"""Heads and predictors that others published, from the folder to the text, which stays as it is."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import edgec
from edgec.errors import InputError
from edgec.runtime_py.decoding.sampling import Sampler, Sampling
from edgec.runtime_py.generation.generate import stream_tokens
from edgec.runtime_py.sessions.session import Session
from edgec.runtime_py.speculation.heads import HeadDrafts
from tests.exporter.sources.drafts.eagle_folders import eagle_tensors, write_eagle
from tests.exporter.sources.drafts.medusa_folders import medusa_heads, write_medusa
from tests.exporter.sources.drafts.mtp_models import write_mtp
from tests.runtime_py.speculation.simulated import Always
from tests.runtime_py.tiny_decoder import VOCAB, tiny_tokenizer


@pytest.mark.slow
@pytest.mark.long
def test_a_medusa_folder_becomes_heads_of_the_bundle(tiny_folder: Path, tiny_bundle: Path, tmp_path: Path) -> None:
    medusa = write_medusa(tmp_path / "medusa", medusa_heads(3, 2, 32, VOCAB), 2)
    bundle = edgec.export(tiny_folder, recipe="float", out=tmp_path / "heads.edgec", draft_heads=medusa)
    session, plain, prompt = Session(bundle), Session(tiny_bundle), [5, 17, 40, 8]
    one = Always([HeadDrafts(session)], session, session.bundle.manifest.states)
    wanted = list(islice(stream_tokens(plain, prompt, Sampler(Sampling())), 30))
    assert list(islice(one.tokens(session, prompt, Sampling(), 30), 30)) == wanted
    assert one.counts.drafted > 0
    (said,) = [each for each in session.bundle.manifest.passes if each.name == "draft_heads"]
    assert said.options["source"] == {"folder": str(medusa), "allow_pickle": False}
    assert [output.name for output in session.bundle.manifest.methods[0].outputs] == ["logits", "draft_logits"]
    words = edgec.load(bundle).generate("Once upon a time", speculate="heads", max_new_tokens=8)
    assert words.tokens == edgec.load(tiny_bundle).generate("Once upon a time", max_new_tokens=8).tokens


def test_heads_of_another_vocabulary_are_refused_before_any_work(tiny_folder: Path, tmp_path: Path) -> None:
    medusa = write_medusa(tmp_path / "medusa", medusa_heads(3, 1, 32, VOCAB - 1), 1)
    with pytest.raises(InputError, match="E843"):
        edgec.export(tiny_folder, recipe="float", out=tmp_path / "heads.edgec", draft_heads=medusa)


@pytest.fixture(scope="module")
def predicted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random two-layer Qwen3 with a tokenizer and a predictor, in 4 bits."""
    folder = tmp_path_factory.mktemp("predicted")
    write_mtp(folder / "model", "qwen3", vocab_size=VOCAB, num_hidden_layers=2)
    tiny_tokenizer().save_pretrained(folder / "model")
    return edgec.export(folder / "model", out=folder / "mtp.edgec", draft_heads="mtp")


@pytest.mark.slow
def test_the_checkpoints_own_predictor_is_a_method_of_the_bundle(predicted: Path) -> None:
    model = edgec.load(predicted)
    manifest = model.bundle.manifest
    assert [method.name for method in manifest.methods] == ["forward_rows", "draft"]
    assert manifest.predictor is not None and manifest.predictor.name == "mtp" and manifest.predictor.width == 32
    assert {state.layer for state in manifest.predictor.states} == {2}
    assert {state.layer for state in manifest.states} == {0, 1}
    plain = model.generate("Once upon a time", max_new_tokens=12)
    for how in ("mtp", "auto"):
        fast = model.generate("Once upon a time", max_new_tokens=12, speculate=how)
        assert (fast.tokens, fast.text) == (plain.tokens, plain.text)
    request = model.request(max_new_tokens=6)
    slow, chat = model.chat(), model.chat(speculate="mtp")
    wanted = [slow.say(text, request).text for text in ("a red ball", "and a red")]
    assert [chat.say(text, request).text for text in ("a red ball", "and a red")] == wanted


@pytest.mark.slow
def test_embedding_and_lm_head_are_in_the_artifact_once(predicted: Path) -> None:
    ledger = edgec.load(predicted).bundle.manifest.ledger
    assert ledger is not None
    names = [row.name for row in ledger.rows]
    assert sum("embed_tokens" in name for name in names) == sum("lm_head" in name for name in names) == 1
    assert any(name.startswith("draft.join.eh_proj") for name in names)
    assert all(row.copies <= 1 for row in ledger.rows)


@pytest.mark.slow
def test_both_methods_have_a_ladder_and_drafts_are_not_gated_on_quality(predicted: Path) -> None:
    rungs = edgec.load(predicted).bundle.manifest.parity
    drafts = [rung for rung in rungs if "draft" in rung.stage]
    assert {rung.half for rung in drafts} == {"lowering", "quality"}
    assert all(rung.passed and rung.gated == (rung.half == "lowering") for rung in drafts)
    assert drafts[-1].stage == "artifact, from tokens to drafts"


@pytest.mark.slow
def test_an_eagle_folder_is_a_method_of_the_bundle(tmp_path: Path) -> None:
    """In 4 bits; lm_head and the matrix that joins three hidden states are further tensors, the embedding is not."""
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 6, "head_dim": 8, "vocab_size": VOCAB}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
    special = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "initializer_range": 0.1}
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(**shape, **heads, **special)).save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    folder = write_eagle(tmp_path / "eagle", eagle_tensors(VOCAB, 100), VOCAB)
    model = edgec.load(edgec.export(tmp_path / "model", out=tmp_path / "eagle.edgec", draft_heads=folder))
    plain = model.generate("Once upon a time", max_new_tokens=12)
    fast = model.generate("Once upon a time", max_new_tokens=12, speculate="eagle3")
    assert (fast.tokens, fast.text) == (plain.tokens, plain.text)
    manifest = model.bundle.manifest
    assert manifest.predictor is not None and manifest.predictor.name == "eagle3" and manifest.ledger is not None
    names = [row.name for row in manifest.ledger.rows]
    assert sum("embed_tokens" in name for name in names) == 1
    assert {"draft.lm_head.linear.weight_int", "draft_fc_int"} <= set(names)
    with pytest.raises(InputError, match="E195"):
        model.speculator("mtp")


@pytest.mark.parametrize(
    ("given", "code", "where"),
    [
        ({"system_prompt": "prompt.txt"}, "E847", "--system-prompt"),
        ({"recipe": "early.toml"}, "E847", "early_exit"),
        ({"target": "iphone-16-pro"}, "E402", "--draft-heads"),
    ],
)
def test_what_changes_what_a_predictor_reads_is_refused(
    given: dict[str, str], code: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompt.txt").write_text("You are Lily.\n")
    (tmp_path / "early.toml").write_text("early_exit = 1\n")
    write_mtp(tmp_path / "model", "qwen3", vocab_size=VOCAB)
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    with pytest.raises(InputError, match=code) as error:
        edgec.export(tmp_path / "model", out=tmp_path / "mtp.edgec", draft_heads="mtp", **given)  # type: ignore[arg-type]
    assert where in str(error.value.where)
