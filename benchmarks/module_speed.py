"""Speed, bytes and error of trained networks on this CPU, beside ExecuTorch's XNNPACK recipe and ONNX Runtime.

    EDGEC_REAL_PACKAGES=FOLDER python -m benchmarks.module_speed [NETWORK ...] [--threads 1 2] [--recipes float 8bit]

Networks and inputs are those of ``benchmarks.real_modules``. Of 16 inputs ranges are calibrated, 32 others are
compared with the network itself. The peers' 8 bits are what their guides recommend: XNNPACKQuantizer's symmetric
configuration with a scale for each channel (PT2E), and ONNX Runtime's static quantisation (QDQ, a scale for each
channel). All `.pte` files run in the same engine. Calls take turns; medians are printed.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.real_modules import GIVEN, NETWORKS, listed, saved
from benchmarks.real_networks.network import FOLDER, Inputs, Network

_HELD_OUT, _TURNS = 32, 40
Call = Callable[[Inputs], Sequence[Tensor]]


@dataclass(frozen=True)
class Subject:
    """Something that runs a network: its bytes, and a call of it."""

    name: str
    size: int
    call: Call


def subjects(name: str, recipe: str, inputs: Sequence[Inputs], folder: Path, threads: int) -> Iterator[Subject]:
    """The same network under each engine."""
    network = NETWORKS[name]
    module, _ = network.make()
    yield _edgec(name, recipe, inputs, folder, "host")
    yield _edgec(name, recipe, inputs, folder, "android-cpu")
    yield _executorch(module, recipe, inputs, folder)
    yield _onnxruntime(network, module, recipe, inputs, folder, threads)


def _edgec(name: str, recipe: str, inputs: Sequence[Inputs], folder: Path, target: str) -> Subject:
    import edgec

    network, out = NETWORKS[name], folder / f"{name}-{recipe}-{target}.edgec"
    options: dict[str, Any] = {"target": target, "recipe": recipe, "inputs": saved(network, inputs, folder)}
    edgec.export(network.factory, out=out, force=True, **options)
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


def measured(found: Sequence[Subject], network: Network, held_out: Sequence[Inputs]) -> Iterator[tuple[str, ...]]:
    """The rows of a table: bytes, median milliseconds of a call, and the difference in the network's unit."""
    module = network.make()[0]
    with torch.no_grad():
        wanted = [listed(module(*x)) for x in held_out]
    times: Mapping[str, list[float]] = {each.name: [] for each in found}
    for turn in range(_TURNS):
        for each in found:
            started = time.perf_counter()
            each.call(held_out[turn % len(held_out)])
            times[each.name].append(1e3 * (time.perf_counter() - started))
    unit, differ = network.unit
    for each in found:
        gaps = [differ(own, listed(each.call(x))) for own, x in zip(wanted, held_out, strict=True)]
        spent = f"{np.median(times[each.name]):.3g}", f"{min(times[each.name]):.3g}"
        yield each.name, f"{each.size:,}", *spent, f"{np.median(gaps):.2g} / {max(gaps):.2g} {unit}"


def _named(names: Sequence[str], inputs: Inputs) -> dict[str, Any]:
    return {name: value.numpy() for name, value in zip(names, inputs, strict=True)}


def main() -> None:
    """Print a line for each network, recipe, number of threads and engine."""
    from edgec.runtime_py.engines.threads import set_threads

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    parser.add_argument("--recipes", nargs="+", default=["float", "8bit"])
    asked = parser.parse_args()
    if FOLDER not in os.environ:
        raise SystemExit(f"{FOLDER} names no folder with the unzipped packages; see benchmarks/real_modules.py")
    print("| network | recipe | threads | engine | bytes | median, ms | least, ms | median / worst difference |")
    print("|---|---|---|---|---|---|---|---|")
    for name in asked.networks:
        drawn = torch.Generator().manual_seed(1)
        inputs = [NETWORKS[name].drawn(drawn) for _ in range(GIVEN + _HELD_OUT)]
        for recipe in asked.recipes:
            for threads in asked.threads:
                with TemporaryDirectory() as folder:
                    found = [*subjects(name, recipe, inputs[:GIVEN], Path(folder), threads)]
                    set_threads(threads)
                    for row in measured(found, NETWORKS[name], inputs[GIVEN:]):
                        print(f"| {name} | {recipe} | {threads} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
