"""Speed, bytes and error of trained networks on this CPU, beside ExecuTorch's XNNPACK recipe and ONNX Runtime.

    EDGEC_REAL_PACKAGES=FOLDER python -m benchmarks.module_speed [NETWORK ...] [--threads 1 2] [--recipes float 8bit]

Networks and inputs are those of ``benchmarks.real_modules``. Of 16 inputs ranges are calibrated, 32 others are
compared with the network itself. The peers' 8 bits are what their guides recommend: XNNPACKQuantizer's symmetric
configuration with a scale for each channel (PT2E), and ONNX Runtime's static quantisation (QDQ, a scale for each
channel). All `.pte` files run in the same engine. Engines take turns of a few calls, with a pause before each turn in
which another's threads stop spinning; medians are printed. In float there are also
edgec's package for iPhones and coremltools' conversion to float16: both run in edgec's interpreter, for bytes and
differences, not for times. Edgec's budgets are lifted, so that every net is in 8 bits. An engine that refuses a
network has its words in its row.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.real_modules import GIVEN, NETWORKS, listed, saved
from benchmarks.real_networks.network import FOLDER, Inputs, Network

_HELD_OUT, _TURNS, _CALLS, _SAID = 32, 10, 5, 160
_PAUSE_S = 0.05
_NO_LIMIT = 1e3
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


def subjects(
    name: str, recipe: str, inputs: Sequence[Inputs], folder: Path, threads: int
) -> Iterator[Subject | Refused]:
    """The same network under each engine, or that engine's refusal, after which the others go on."""
    network = NETWORKS[name]
    module, _ = network.make()
    makers: dict[str, Callable[[], Subject]] = {
        "edgec, host": partial(_edgec, name, recipe, inputs, folder, "host"),
        "edgec, android-cpu": partial(_edgec, name, recipe, inputs, folder, "android-cpu"),
        "ExecuTorch, XNNPACK": partial(_executorch, module, recipe, inputs, folder),
        "ONNX Runtime": partial(_onnxruntime, network, module, recipe, inputs, folder, threads),
    }
    if recipe == "float":
        makers["edgec, iphone (simulated)"] = partial(_package, name, inputs, folder)
        makers["coremltools, float16 (simulated)"] = partial(_coremltools, network, module, inputs[0], folder)
    for engine, make in makers.items():
        yield _tried(engine, make, inputs[0])


def _tried(engine: str, make: Callable[[], Subject], first: Inputs) -> Subject | Refused:
    """A subject that has computed something, or what its engine said instead."""
    try:
        made = make()
        made.call(first)
    except Exception as error:  # Peers fail in their own ways, and a table says so in its row.
        return Refused(engine, f"{type(error).__name__}: {' '.join(str(error).split())[:_SAID]}")
    return replace(made, name=engine)


def _edgec(name: str, recipe: str, inputs: Sequence[Inputs], folder: Path, target: str) -> Subject:
    import edgec

    network, out = NETWORKS[name], folder / f"{name}-{recipe}-{target}.edgec"
    options: dict[str, Any] = {"target": target, "recipe": recipe, "inputs": saved(network, inputs, folder)}
    if not out.exists():  # Made once, and opened for each number of threads.
        # Peers' quantisers judge nothing: what they lose is compared, not refused.
        edgec.export(network.factory, out=out, budgets={"max_relative": _NO_LIMIT}, **options)
    return _pte(f"edgec, {target}", out / "model.pte")


def _pte(name: str, file: Path) -> Subject:
    from edgec.runtime_py.engines.open_artifact import TorchMethod

    method = TorchMethod(file)
    return Subject(name, file.stat().st_size, method)


def _executorch(module: nn.Module, recipe: str, inputs: Sequence[Inputs], folder: Path) -> Subject:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from executorch.exir import to_edge_transform_and_lower
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    exported = torch.export.export(module, inputs[0], strict=False)
    if recipe == "8bit":
        quantizer = XNNPACKQuantizer()
        quantizer.set_global(get_symmetric_quantization_config(is_per_channel=True))
        prepared = prepare_pt2e(exported.module(), quantizer)
        for each in inputs:
            prepared(*each)
        exported = torch.export.export(convert_pt2e(prepared), inputs[0], strict=False)
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch()
    (file := folder / f"peer-{recipe}.pte").write_bytes(lowered.buffer)
    return _pte("ExecuTorch, XNNPACK", file)


def _onnxruntime(
    network: Network, module: nn.Module, recipe: str, inputs: Sequence[Inputs], folder: Path, threads: int
) -> Subject:
    import onnxruntime
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    file, names = folder / "peer.onnx", [*network.inputs]
    torch.onnx.export(module, inputs[0], file, input_names=names, dynamo=True, external_data=False)

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter(inputs)

        def get_next(self) -> dict[str, Any] | None:
            found = next(self.left, None)
            return None if found is None else _named(names, found)

    if recipe == "8bit":
        quant_pre_process(file, folder / "prepared.onnx")
        file = folder / "peer-8bit.onnx"
        quantize_static(folder / "prepared.onnx", file, Reader(), quant_format=QuantFormat.QDQ, per_channel=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    call: Call = lambda x: [torch.from_numpy(value) for value in session.run(None, _named(names, x))]  # noqa: E731
    return Subject("ONNX Runtime", file.stat().st_size, call)


def _package(name: str, inputs: Sequence[Inputs], folder: Path) -> Subject:
    """Edgec's own package for Core ML, in float16, executed by its interpreter."""
    import edgec

    network, out = NETWORKS[name], folder / f"{name}-iphone.edgec"
    options: dict[str, Any] = {"target": "iphone", "format": "mlpackage", "inputs": saved(network, inputs, folder)}
    if not out.exists():
        edgec.export(network.factory, out=out, **options)
    bundle = edgec.load(out)
    call: Call = lambda x: [*map(torch.as_tensor, bundle.run(**_named(network.inputs, x)).values())]  # noqa: E731
    return Subject("", _bytes(out / "model.mlpackage"), call, simulated=True)


def _coremltools(network: Network, module: nn.Module, first: Inputs, folder: Path) -> Subject:
    """Coremltools' own conversion to float16, as its guide has it, executed by edgec's interpreter."""
    import coremltools as ct

    from edgec.backends.coreml.interpreter import load_package

    exported = torch.export.export(module, first, strict=False).run_decompositions({})
    made = ct.convert(
        exported,
        minimum_deployment_target=ct.target.iOS18,
        compute_precision=ct.precision.FLOAT16,
        inputs=[ct.TensorType(name=name, shape=value.shape) for name, value in zip(network.inputs, first, strict=True)],
        skip_model_load=True,
    )
    made.save(str(file := folder / "peer.mlpackage"))
    package = load_package(file)
    function = package.functions[package.default_function]
    call: Call = lambda x: [*function.run(dict(zip(network.inputs, x, strict=True))).values()]  # noqa: E731
    return Subject("", _bytes(file), call, simulated=True)


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def measured(
    found: Sequence[Subject | Refused], network: Network, held_out: Sequence[Inputs]
) -> Iterator[tuple[str, ...]]:
    """The rows of a table: bytes, median milliseconds of a call, and the difference in the network's unit."""
    module = network.make()[0]
    with torch.no_grad():
        wanted = [listed(module(*x)) for x in held_out]
    running = [each for each in found if isinstance(each, Subject)]
    times: Mapping[str, list[float]] = {each.name: [] for each in running}
    for turn in range(_TURNS):
        for each in (each for each in running if not each.simulated):
            time.sleep(_PAUSE_S)
            times[each.name] += _timed(each.call, held_out[turn % len(held_out)])[1:]
    unit, differ = network.unit
    for one in found:
        if isinstance(one, Refused):
            yield one.name, "", "", "", one.why
            continue
        gaps = [differ(own, listed(one.call(x))) for own, x in zip(wanted, held_out, strict=True)]
        taken = times[one.name]
        spent = (f"{np.median(taken):.3g}", f"{min(taken):.3g}") if taken else ("", "")
        yield one.name, f"{one.size:,}", *spent, f"{np.median(gaps):.2g} / {max(gaps):.2g} {unit}"


def _timed(call: Call, inputs: Inputs) -> list[float]:
    """Milliseconds of each of a few calls; the first finds cold caches."""
    taken = []
    for _ in range(_CALLS):
        started = time.perf_counter()
        call(inputs)
        taken.append(1e3 * (time.perf_counter() - started))
    return taken


def _named(names: Sequence[str], inputs: Inputs) -> dict[str, Any]:
    return {name: value.numpy() for name, value in zip(names, inputs, strict=True)}


def main() -> None:
    """Print a line for each network, recipe, number of threads and engine."""
    from edgec.runtime_py.engines.threads import set_threads

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="among: " + ", ".join(NETWORKS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    parser.add_argument("--recipes", nargs="+", default=["float", "8bit"])
    asked = parser.parse_args()
    if unknown := [*filter(lambda name: name not in NETWORKS, asked.networks)]:
        parser.error(f"no network is called {', '.join(unknown)}; there are {', '.join(NETWORKS)}")
    if FOLDER not in os.environ:
        raise SystemExit(f"{FOLDER} names no folder with the unzipped packages; see benchmarks/real_modules.py")
    print("| network | recipe | threads | engine | bytes | median, ms | least, ms | median / worst difference |")
    print("|---|---|---|---|---|---|---|---|")
    for name in asked.networks or NETWORKS:
        drawn = torch.Generator().manual_seed(1)
        inputs = [NETWORKS[name].drawn(drawn) for _ in range(GIVEN + _HELD_OUT)]
        for recipe in asked.recipes:
            with TemporaryDirectory() as folder:
                for threads in asked.threads:
                    found = [*subjects(name, recipe, inputs[:GIVEN], Path(folder), threads)]
                    set_threads(threads)
                    for row in measured(found, NETWORKS[name], inputs[GIVEN:]):
                        print(f"| {name} | {recipe} | {threads} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
