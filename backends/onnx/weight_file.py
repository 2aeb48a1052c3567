"""The constants of several ONNX models in one file that all of them read, each stored once.

prefill.onnx, decode.onnx        programs; constants of 1 KiB and more are references
weights.bin                      [constant, padding to 64 bytes] ...
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.bundle.pte_layout import ArtifactLayout, StoredBytes

if TYPE_CHECKING:
    import onnx_ir as ir

WEIGHTS = "weights.bin"
_SMALL, _ALIGNMENT = 1024, 64


def packed(model: ir.Model) -> None:
    """Fold casts of constants to 4 bits, which stores two integers in each byte."""
    import ml_dtypes
    import onnx_ir as ir

    for node in list(model.graph):
        source = node.inputs[0] if node.op_type == "Cast" else None
        if source is None or source.const_value is None or node.attributes["to"].as_int() != ir.DataType.INT4:
            continue
        value = node.outputs[0]
        name = f"{source.name}_int4"
        held = model.graph.initializers.get(name)
        if held is None:
            tensor = ir.Tensor(source.const_value.numpy().astype(ml_dtypes.int4), name=name)
            held = ir.Value(name=name, shape=source.shape, type=ir.TensorType(ir.DataType.INT4), const_value=tensor)
            model.graph.register_initializer(held)
        value.replace_all_uses_with(held)
        model.graph.remove(node, safe=True)
        if not source.uses():
            model.graph.initializers.pop(str(source.name))


def write_models(models: Mapping[str, ir.Model], folder: Path) -> None:
    """Write NAME.onnx for each model and one file of their constants; ``folder`` does not exist yet."""
    import onnx_ir as ir

    folder.mkdir()
    places: dict[tuple[str, str], tuple[int, int]] = {}
    with (folder / WEIGHTS).open("wb") as file:
        for name, model in models.items():
            packed(model)
            for value in model.graph.initializers.values():
                if value.const_value is not None and value.const_value.nbytes >= _SMALL:
                    value.const_value = _external(value.const_value, file, folder, places)
            ir.save(model, folder / f"{name}.onnx")


def _external(tensor: Any, file: Any, folder: Path, places: dict[tuple[str, str], tuple[int, int]]) -> Any:
    """A reference to the constant's bytes, which are written unless the file holds them already."""
    import onnx_ir as ir

    content = tensor.tobytes()
    key = (hashlib.sha256(content).hexdigest(), str(tensor.dtype))
    if key not in places:
        file.write(b"\0" * (-file.tell() % _ALIGNMENT))
        places[key] = (file.tell(), len(content))
        file.write(content)
    offset, length = places[key]
    return ir.ExternalTensor(
        WEIGHTS, offset, length, tensor.dtype, shape=tensor.shape, name=tensor.name, base_dir=folder
    )


def folder_layout(folder: Path) -> ArtifactLayout:
    """Where the bytes of a folder that ``write_models`` wrote lie."""
    import onnx

    programs = sorted(folder.glob("*.onnx"))
    weights = (folder / WEIGHTS).read_bytes()
    runs: dict[int, StoredBytes] = {}
    for program in programs:
        for tensor in onnx.load(str(program), load_external_data=False).graph.initializer:
            given = {entry.key: entry.value for entry in tensor.external_data}
            if given:
                offset, length = int(given["offset"]), int(given["length"])
                runs[offset] = _stored(tensor, offset, weights[offset : offset + length])
    structure = sum(program.stat().st_size for program in programs)
    padding = len(weights) - sum(run.bytes for run in runs.values())
    return ArtifactLayout(structure + len(weights), structure, 0, padding, tuple(runs.values()))


def _stored(tensor: Any, offset: int, content: bytes) -> StoredBytes:
    import onnx

    dtype = onnx.TensorProto.DataType.Name(tensor.data_type).lower()
    digest = hashlib.sha256(content).hexdigest()
    return StoredBytes(f"{tensor.name}@{offset}", WEIGHTS, len(content), digest, dtype, tuple(tensor.dims))
