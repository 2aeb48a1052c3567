"""Tell which form of MODEL the user gave, and refuse unsupported forms with advice."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from zipfile import ZipFile, is_zipfile

from edgec.errors import InputError
from edgec.exporter.sources.files.model_folder import CONFIG
from edgec.installation import PACKAGE

EXAMPLE = "tiny-stories"
ADAPTER_CONFIG = "adapter_config.json"
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.\-]*(/[A-Za-z0-9][\w.\-]*)?")
_STATE = (
    "weights alone",
    'module = Network(...); module.load_state_dict(torch.load("{file}", weights_only=True))',
    "torch.save keeps tensors by name, or a reference to a class, and no code of the network",
)
_TORCHSCRIPT = (
    "a TorchScript",
    'module = torch.jit.load("{file}")',
    "a script says neither the shapes of its inputs nor an example of them",
)
# A name that ends like a file is a mistyped path, not a hub id.
_FILE_SUFFIXES = (".json", ".safetensors", ".gguf", ".onnx", ".pte", ".py", ".edgec", *PICKLE_SUFFIXES)


def existing_path(model: str, folder: Path | None = None) -> Path | None:
    """The absolute path that MODEL names, if it exists; relative paths start at ``folder``."""
    try:
        path = (folder or Path.cwd()) / Path(model).expanduser()
        return path.absolute() if model and path.exists() else None
    except (OSError, RuntimeError):  # A name that is too long, no permission, an unknown ~user.
        return None


def carried_example(model: str) -> Path | None:
    """The folder of the small model that edgec brings, where MODEL names it and there is no such path."""
    named = existing_path(model) is None and model in (EXAMPLE, f"examples/{EXAMPLE}")
    folder = PACKAGE / "example"
    return folder if named and (folder / CONFIG).is_file() else None


def is_hub_id(model: str) -> bool:
    """Whether MODEL can be a Hugging Face id: ``name`` or ``owner/name``."""
    return _HUB_ID.fullmatch(model) is not None and not model.endswith(_FILE_SUFFIXES)


def short_name(text: str) -> str:
    """A name that is safe in file names, from a path, an id or a factory's name."""
    return re.sub(r"[^\w.\-]+", "-", text).strip("-.") or "model"


def no_such_path(model: str) -> InputError:
    """The error for a MODEL that looks like a path but does not exist."""
    path = Path(model)
    folder = existing_path(str(path.parent))
    beside = [item.name for item in folder.glob("*")] if folder else []
    near = get_close_matches(path.name, beside, n=1)
    return InputError(
        what=f"There is no model at {model!r}.",
        where=str(path.absolute()),
        why="no such file or folder, and it is not of the form owner/name or package.module:factory",
        fix=f"Did you mean {path.parent / near[0]}?" if near else "Check the path.",
        code="E101",
    )


def refuse_file(file: Path) -> InputError:
    """The error for a single file that is not a model description."""
    if file.suffix in PICKLE_SUFFIXES:
        return _weights_alone(file)
    advice = {
        ".safetensors": "Pass the folder that holds it together with config.json.",
        ".py": "Pass package.module:factory, for example my_model:make.",
        ".pte": "This is a lowered program already; pass the model that it was made from.",
        ".onnx": "Pass the PyTorch model that it was exported from.",
    }
    return InputError(
        what=f"edgec does not take {file.suffix or 'such'} files as a MODEL.",
        where=str(file),
        why="a MODEL is a folder, a config.json, a GGUF file, a Hugging Face id or package.module:factory",
        fix=advice.get(file.suffix, "Pass one of those."),
        code="E145",
    )


def _weights_alone(file: Path) -> InputError:
    """The error for a file that ``torch.save`` or ``torch.jit.save`` wrote; it is not unpickled."""
    kind, read, why = _TORCHSCRIPT if _is_script(file) else _STATE
    return InputError(
        what=f"{file.name} holds {kind}, and a MODEL is a network with an example of its inputs.",
        where=str(file),
        why=why,
        fix=f"write my_model.py with: def make(): {read.format(file=file.name)}; return module.eval(), "
        "(torch.zeros(SHAPE),) - and pass my_model:make, from its folder (docs/modules.md)",
        code="E885",
    )


def _is_script(file: Path) -> bool:
    """Whether a file is an archive of TorchScript, which has its code beside the tensors."""
    if not is_zipfile(file):
        return False
    with ZipFile(file) as archive:
        return any("/code/" in name for name in archive.namelist())


def refuse_foreign_folder(folder: Path) -> None:
    """Refuse folders that hold something other than a transformers model; with a config.json, do nothing.

    Raises:
        InputError: E145, a bundle.
    """
    if (folder / CONFIG).exists():
        return
    for pattern, make in _FOREIGN:
        if any(folder.glob(pattern)):
            raise make(folder)


def _bundle(where: Path) -> InputError:
    return InputError(
        what="The folder is a bundle made by edgec.",
        where=str(where),
        why="it holds a manifest.json and an artifact, not a model to export",
        fix="Use `edgec run` or `edgec bench` on it, or pass the model it was made from.",
        code="E145",
    )


_FOREIGN: tuple[tuple[str, Callable[[Path], InputError]], ...] = (("manifest.json", _bundle),)
