"""Heads that others published, from the folder to the text, which stays as it is."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

import edgec
from edgec.errors import InputError
from edgec.runtime_py.generate import stream_tokens
from edgec.runtime_py.sampling import Sampler, Sampling
from edgec.runtime_py.sessions.session import Session
from edgec.runtime_py.speculation.heads import HeadDrafts
from tests.exporter.sources.drafts.medusa_folders import medusa_heads, write_medusa
from tests.runtime_py.speculation.simulated import Always
from tests.runtime_py.tiny_decoder import VOCAB


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
