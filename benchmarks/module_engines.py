"""The engines that benchmarks.module_speed puts beside each other: how each makes its file of a network and opens it.

Peers are used as their guides have it: XNNPACKQuantizer's symmetric configuration with a scale for each channel (PT2E),
ONNX Runtime's static quantisation (QDQ, a scale for each channel), and coremltools' conversion to float16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from benchmarks.real_modules import NETWORKS, saved
from benchmarks.real_networks.network import Inputs, Network

_SAID, _NO_LIMIT = 160, 1e3
_Made = TypeVar("_Made")
Call = Callable[[Inputs], Sequence[Tensor]]


@dataclass(frozen=True)
class Subject:
    """Something that runs a network: its bytes, and a call of it; ``simulated``: its time here says nothing."""

    name: str
    size: int
    call: Call
    simulated: bool = False


@dataclass(frozen=True)
class Refused:
    """An engine that does not take a network, and what it said."""

    name: str
    why: str


@dataclass(frozen=True)
class Job:
    """A network to make files of.

    Attributes:
        name: of the network.
        recipe: "float" or "8bit".
        inputs: examples that ranges are calibrated on.
        folder: where the files lie.
    """

    name: str
    recipe: str
    inputs: Sequence[Inputs]
    folder: Path

    @property
    def network(self) -> Network:
        """The network, with its unit."""
        return NETWORKS[self.name]


def files(job: Job) -> Iterator[tuple[str, Path | Refused]]:
    """A file of the network for each engine, or that engine's refusal, after which the others go on.

    What lies in the job's folder is not made again.
    """
    makers: dict[str, tuple[str, Callable[[Job, Path], None]]] = {
        "edgec, host": ("host.edgec/model.pte", partial(_edgec, "host")),
        "edgec, android-cpu": ("android.edgec/model.pte", partial(_edgec, "android-cpu")),
        "ExecuTorch, XNNPACK": ("peer.pte", _executorch),
        "ONNX Runtime": ("peer.onnx", _onnxruntime),
    }
    if job.recipe == "float":
        makers["edgec, iphone (simulated)"] = ("iphone.edgec", _package)
        makers["coremltools, float16 (simulated)"] = ("peer.mlpackage", _coremltools)
    job.folder.mkdir(parents=True, exist_ok=True)
    for engine, (name, make) in makers.items():
        yield engine, tried(engine, partial(_file, make, job, job.folder / name))


def _file(make: Callable[[Job, Path], None], job: Job, file: Path) -> Path:
    if not file.exists():
        make(job, file)
    return file


def subjects(job: Job, made: Mapping[str, Path | Refused], threads: int) -> Iterator[Subject | Refused]:
    """Each file, opened."""
    for engine, file in made.items():
        yield file if isinstance(file, Refused) else tried(engine, partial(_opened, engine, file, job, threads))


def tried(engine: str, make: Callable[[], _Made]) -> _Made | Refused:
    """What was made, or what the engine said instead."""
    try:
        return make()
    except Exception as error:  # Peers fail in their own ways, and a table says so in its row.
        return Refused(engine, f"{type(error).__name__}: {' '.join(str(error).split())[:_SAID]}")


def _opened(engine: str, file: Path, job: Job, threads: int) -> Subject:
    """A file in its engine, after it has computed something."""
    calls: Mapping[str, Callable[[Path, Network], Call]] = {
        ".pte": _pte,
        ".onnx": partial(_session, threads),
        ".edgec": _bundle,
        ".mlpackage": _converted,
    }
    size = _bytes(file / "model.mlpackage" if file.suffix == ".edgec" else file)
    found = Subject(engine, size, calls[file.suffix](file, job.network), "simulated" in engine)
    found.call(job.inputs[0])
    return found


def _pte(file: Path, network: Network) -> Call:
    from edgec.runtime_py.engines.open_artifact import TorchMethod

    return TorchMethod(file)


def _session(threads: int, file: Path, network: Network) -> Call:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return lambda x: [torch.from_numpy(value) for value in session.run(None, _named(network.inputs, x))]


def _bundle(file: Path, network: Network) -> Call:
    """A bundle of a package for Core ML, executed by edgec's interpreter."""
    import edgec

    bundle = edgec.load(file)
    return lambda x: [*map(torch.as_tensor, bundle.run(**_named(network.inputs, x)).values())]


def _converted(file: Path, network: Network) -> Call:
    """A package that coremltools converted, executed by edgec's interpreter."""
    from edgec.backends.coreml.interpreter import load_package

    package = load_package(file)
    function = package.functions[package.default_function]
    return lambda x: [*function.run(dict(zip(network.inputs, x, strict=True))).values()]


def _edgec(target: str, job: Job, file: Path) -> None:
    import edgec

    options: dict[str, Any] = {"target": target, "recipe": job.recipe}
    options |= {"inputs": saved(job.network, job.inputs, job.folder)}
    # Peers' quantisers judge nothing: what they lose is compared, not refused.
    options |= {"budgets": {"max_relative": _NO_LIMIT}, "out": file.parent}
    edgec.export(job.network.factory, **options)


def _executorch(job: Job, file: Path) -> None:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from executorch.exir import to_edge_transform_and_lower
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    exported = torch.export.export(job.network.make()[0], job.inputs[0], strict=False)
    if job.recipe == "8bit":
        quantizer = XNNPACKQuantizer()
        quantizer.set_global(get_symmetric_quantization_config(is_per_channel=True))
        prepared = prepare_pt2e(exported.module(), quantizer)
        for each in job.inputs:
            prepared(*each)
        exported = torch.export.export(convert_pt2e(prepared), job.inputs[0], strict=False)
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch()
    file.write_bytes(lowered.buffer)


def _onnxruntime(job: Job, file: Path) -> None:
    from onnxruntime.quantization import QuantFormat, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    names, wide = [*job.network.inputs], job.folder / "float.onnx"
    module, _ = job.network.make()
    torch.onnx.export(module, job.inputs[0], wide, input_names=names, dynamo=True, external_data=False, verbose=False)
    if job.recipe != "8bit":
        wide.rename(file)
        return
    prepared = job.folder / "prepared.onnx"
    quant_pre_process(wide, prepared)
    quantize_static(prepared, file, _reader(job), quant_format=QuantFormat.QDQ, per_channel=True)


def _reader(job: Job) -> Any:
    """The examples, as ONNX Runtime's quantiser asks for them."""
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter(job.inputs)

        def get_next(self) -> dict[str, Any] | None:
            found = next(self.left, None)
            return None if found is None else _named(job.network.inputs, found)

    return Reader()


def _package(job: Job, file: Path) -> None:
    """Edgec's own package for Core ML, in float16."""
    import edgec

    options: dict[str, Any] = {"target": "iphone", "format": "mlpackage"}
    options |= {"inputs": saved(job.network, job.inputs, job.folder)}
    edgec.export(job.network.factory, out=file, **options)


def _coremltools(job: Job, file: Path) -> None:
    """Coremltools' own conversion to float16, as its guide has it."""
    import coremltools as ct

    (module, _), first = job.network.make(), job.inputs[0]
    exported = torch.export.export(module, first, strict=False).run_decompositions({})
    named = zip(job.network.inputs, first, strict=True)
    made = ct.convert(
        exported,
        minimum_deployment_target=ct.target.iOS18,
        compute_precision=ct.precision.FLOAT16,
        inputs=[ct.TensorType(name=name, shape=value.shape) for name, value in named],
        skip_model_load=True,
    )
    made.save(str(file))


def _bytes(place: Path) -> int:
    files = place.rglob("*") if place.is_dir() else [place]
    return sum(file.stat().st_size for file in files if file.is_file())


def _named(names: Sequence[str], inputs: Inputs) -> dict[str, Any]:
    return {name: value.numpy() for name, value in zip(names, inputs, strict=True)}
