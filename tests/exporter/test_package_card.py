"""What a package says of its model, from what is known of it."""

from __future__ import annotations

from edgec.exporter.package_card import package_card
from edgec.exporter.sources.model_source import ModelSource


def test_a_model_of_the_hub_has_owner_commit_and_name() -> None:
    source = ModelSource(
        "Tiny", "decoder", "someone/Tiny", revision="abc", licence="mit", config={"model_type": "llama"}
    )
    card = package_card(source, "8bit", "edgec", 512)
    assert (card.author, card.licence, card.version) == ("someone", "mit", "abc")
    assert card.description.startswith("Tiny: llama decoder, ") and "recipe 8bit" in card.description
    assert card.details["co.huggingface.exporters.name"] == card.details["edgec_source"] == "someone/Tiny"
    assert card.details["edgec_context"] == "512"


def test_a_local_model_keeps_its_path_to_itself() -> None:
    source = ModelSource(
        "mine", "module", "/home/me/secret/mine", config={"_name_or_path": "secret/mine"}, task="other"
    )
    card = package_card(source, "8bit", "edgec", None)
    assert (card.author, card.licence, card.version) == ("not stated",) * 3
    assert "secret" not in repr(card)
    assert card.details["edgec_source"] == "mine"
    assert not {"co.huggingface.exporters.name", "edgec_context"} & set(card.details)
