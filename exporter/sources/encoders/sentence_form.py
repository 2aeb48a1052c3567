"""How a sentence encoder makes one vector of a text, read from a folder in the layout of sentence-transformers.

modules.json            the parts in order: Transformer, Pooling, any number of Dense, Normalize
1_Pooling/config.json   how the vectors of a text's tokens become one
2_Dense/                a linear layer with an activation, and its weights
9_Normalize/config.json names of what it reads and gives, in newer files
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from edgec.bundle.limited_json import read_json, read_object
from edgec.bundle.sentence_prompts import SentencePrompts
from edgec.exporter.sources.decoders.rotation_limits import rotated_alike
from edgec.exporter.sources.encoders.sentence_settings import KIND, read_settings
from edgec.exporter.sources.files.plain_files import is_plain

TASK = "sentence-similarity"
POOLINGS = ("mean", "cls", "max", "lasttoken")
ACTIVATIONS = ("Identity", "Tanh", "GELU", "ReLU", "Sigmoid", "SiLU")
"""Classes of torch.nn without arguments that a Dense part may name."""
_MODULES = "modules.json"
_VECTOR = "sentence_embedding"
# The module paths of all classes that are not the model's own code.
_OWN = "sentence_transformers."
_TOKENS, _USUAL = 512, 2048
_MOST_VALUES = 1 << 20
_FIRST, _DENSE, _LAST = ["Transformer", "Pooling"], "Dense", "Normalize"
_MODES: Mapping[str, str] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "lasttoken",
}


@dataclass(frozen=True)
class DenseForm:
    """A linear layer between pooling and normalisation: ``activation(W x + b)``.

    Attributes:
        folder: holds its weights, ``linear.weight`` [D_out, D_in] and ``linear.bias`` [D_out].
        in_features, out_features: D_in and D_out.
        bias: whether there is one.
        activation: one of ``ACTIVATIONS``.
    """

    folder: Path
    in_features: int
    out_features: int
    bias: bool
    activation: str


@dataclass(frozen=True)
class SentenceForm:
    """How a text's vector is made of its tokens' vectors.

    Attributes:
        pooling: one of ``POOLINGS``.
        dense: the layers after it.
        normalised: whether the vector has length 1.
        most_tokens: the longest text that the model's authors read, special tokens included; None: not stated.
        files: what was read.
        prompts: what goes before a text; None where nothing does.
        pools_prompt: whether the tokens of a prompt count like the text's own.
    """

    pooling: str
    dense: tuple[DenseForm, ...]
    normalised: bool
    most_tokens: int | None
    files: tuple[Path, ...]
    prompts: SentencePrompts | None = None
    pools_prompt: bool = True


def is_sentence_encoder(folder: Path) -> bool:
    """Whether the list of a sentence encoder's parts lies in the folder."""
    return is_plain(folder / _MODULES)


def sentence_form(folder: Path) -> SentenceForm | None:
    """Read the parts of a sentence encoder; None where the folder has no ``modules.json``.

    Raises:
        InputError: E641, a file is damaged, or there is a part, a pooling or an activation that edgec does not know.
    """
    listed = folder / _MODULES
    if not is_sentence_encoder(folder):
        return None
    parts = _parts(listed)
    dense = tuple(_dense(folder / path) for kind, path in parts if kind == _DENSE)
    config = folder / parts[1][1] / "config.json"
    last = folder / parts[-1][1] / "config.json"
    normalised = parts[-1][0] == _LAST
    # Older folders of Normalize are empty, and a path of none is the model's own folder.
    named = (last,) if normalised and parts[-1][1] and is_plain(last) else ()
    for file in named:
        _check_places(file, read_object(file, KIND))
    settings = read_settings(folder)
    return SentenceForm(
        pooling=_pooling(config),
        dense=dense,
        normalised=normalised,
        most_tokens=settings.most_tokens,
        files=(listed, config, *settings.files, *named, *(part.folder / "config.json" for part in dense)),
        prompts=settings.prompts,
        pools_prompt=settings.prompts is None or read_object(config, KIND).get("include_prompt") is not False,
    )


def _check_places(file: Path, told: Mapping[str, Any]) -> None:
    """Refuse a part that reads or gives something other than the text's vector."""
    for name in ("module_input_name", "module_output_name"):
        if told.get(name) not in (None, _VECTOR):
            raise KIND.refusal(file, f"{name} is {told[name]!r}; known is {_VECTOR!r}")


def _parts(listed: Path) -> list[tuple[str, str]]:
    """The kind and the folder of each part."""
    entries = read_json(listed, KIND)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise KIND.refusal(listed, "it is not a list of parts")
    told = [(str(entry.get("type", "")).rpartition(".")[2], str(entry.get("path", ""))) for entry in entries]
    for _, path in told:
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            raise KIND.refusal(listed, f"the path {path!r} leaves the folder")
    foreign = [kind for entry in entries if not (kind := str(entry.get("type", ""))).startswith(_OWN)]
    if foreign:
        raise KIND.refusal(listed, f"the part {foreign[0]!r} is code that comes with the model")
    if told and told[0][1] not in ("", "."):
        raise KIND.refusal(listed, f"its model lies in the folder {told[0][1]!r}, not beside the list")
    names = [kind for kind, _ in told]
    between = names[2:-1] if names[-1:] == [_LAST] else names[2:]
    if names[:2] != _FIRST or any(name != _DENSE for name in between):
        known = "Transformer, Pooling, any number of Dense, Normalize"
        raise KIND.refusal(listed, f"its parts are {', '.join(names)}; known: {known}")
    return told


def _pooling(config: Path) -> str:
    told = read_object(config, KIND)
    chosen = [name for name, value in told.items() if name.startswith("pooling_mode_") and value is True]
    stated = told.get("pooling_mode")
    flagged = [_MODES.get(name, name) for name in chosen]
    modes = flagged if stated is None else [stated] if isinstance(stated, str) else []
    if len(modes) != 1 or modes[0] not in POOLINGS:
        named = ", ".join(map(str, modes)) or "none"
        raise KIND.refusal(config, f"the pooling is {named}; known is one of {', '.join(POOLINGS)}")
    return modes[0]


def _dense(folder: Path) -> DenseForm:
    config = folder / "config.json"
    told = read_object(config, KIND)
    sizes = [told.get(name) for name in ("in_features", "out_features")]
    if not all(type(size) is int and 0 < size <= _MOST_VALUES for size in sizes):
        raise KIND.refusal(config, f"in_features and out_features are {sizes}, not from 1 to {_MOST_VALUES:,}")
    _check_places(config, told)
    if told.get("use_residual"):
        raise KIND.refusal(config, "use_residual adds what the layer reads to what it gives, which edgec does not do")
    path = str(told.get("activation_function", ""))
    activation = path.rpartition(".")[2]
    # Of any other package, sentence-transformers takes Tanh in its place.
    if activation not in ACTIVATIONS or not path.startswith("torch."):
        raise KIND.refusal(config, f"the activation is {path!r}; known: {', '.join(ACTIVATIONS)}")
    return DenseForm(folder, told["in_features"], told["out_features"], told.get("bias") is not False, activation)


def most_tokens(form: SentenceForm, config: Mapping[str, Any], first_place: int, asked: int | None = None) -> int:
    """The longest text that the artifact reads, in tokens; never more than there are positions.

    Args:
        form: the encoder's.
        config: the model's, as plain data.
        first_place: rows of the position table before the first token's.
        asked: what the user asks for; None: what the authors read, 512 where they do not say, and at most 2,048,
            since attention's memory grows with the square.
    """
    stated = config.get("max_position_embeddings")
    positions = stated - first_place if isinstance(stated, int) and stated > first_place else None
    positions = positions and min(positions, rotated_alike(config) or positions)
    usual = min(form.most_tokens or positions or _TOKENS, _USUAL)
    return min(size for size in (asked or usual, positions) if size is not None)


def check_inputs(main_input: str, folder: Path) -> None:
    """Refuse a sentence encoder whose model does not read tokens.

    Raises:
        InputError: E641.
    """
    if main_input != "input_ids":
        raise KIND.refusal(folder / _MODULES, f"the model's main input is {main_input!r}, not tokens")
