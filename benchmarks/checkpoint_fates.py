"""What becomes of quantised checkpoints: python -m benchmarks.checkpoint_fates [NAME ...] [--json FILE].

Without names: examples/tiny-stories, with the matrices of its layers in each type of GGUF (by ggml's own quantiser,
where the peers' environment is there) and each format of safetensors, the table of words in float16 or bfloat16. Fates
are those of the graph that ``edgec export`` lowers for ``host`` with default settings. KL divergence, in nats, is that
graph's, run by torch with activations in 8 bits, against the checkpoint's own values in float32, on held-out stories:
so that it says what edgec adds and nothing of what the format lost. With ``--real`` also eight layers of
Qwen3-0.6B with random weights, whose matrices have all types of GGUF in turn. With ``--model`` a checkpoint of your own
on one target after the other, without a text to calibrate on and without an artifact. All numbers are measured.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks.checkpoint_parts.gguf_types import OF_THE_PACKAGE, TYPES, Quantise, by_package, ggml, write_types
from benchmarks.checkpoint_parts.safetensors_formats import FORMATS
from edgec.bundle.checkpoint_matrices import CheckpointMatrix, fate_shares
from edgec.exporter.options import ExportOptions
from edgec.exporter.parity.metrics import kl_rows
from edgec.exporter.recipes.passes import passes_for
from edgec.exporter.request import ExportRequest
from edgec.exporter.resolve.resolved import resolve_options
from edgec.exporter.sources.resolve import resolve
from edgec.exporter.stages.capturing import capture, stream_weights
from edgec.exporter.stages.stored_fates import judge_stored
from edgec.ir.program import Program
from edgec.ir.quantized_form import decisions_of
from edgec.ir.row_tensor import fill_floats
from edgec.passes.contract import run_passes
from tests.exporter.sources.packed_writers import write_packed

ROOT = Path(__file__).parents[1]
STORIES, REAL = ROOT / "examples" / "tiny-stories", Path(__file__).parent / "architectures" / "qwen3-0.6b.json"
_TOKENS, _LAYERS = 384, 8


@dataclass(frozen=True)
class FateRow:
    """What became of one checkpoint.

    Attributes:
        form: the type or format of its matrices.
        fates: how many matrices have which fate.
        shares: of the bytes of all these matrices, by fate.
        error: the largest, relative to the norm of a matrix.
        kl: mean divergence from the checkpoint's own values, nats; None where it was not measured.
        file_bytes: of the checkpoint's weights.
        matrix_bytes, artifact_bytes: of the matrices there, and as edgec stores them.
    """

    form: str
    fates: dict[str, int]
    shares: dict[str, float]
    error: float
    kl: float | None
    file_bytes: int
    matrix_bytes: int
    artifact_bytes: int

    def cells(self) -> list[str]:
        """As a row of a table in Markdown."""
        told = ", ".join(f"{100 * share:.0f} % {fate}" for fate, share in self.shares.items())
        kl = "not measured" if self.kl is None else f"{self.kl:.2g}"
        error = f"{self.error:.1%}" if self.error else "0"
        sizes = (self.file_bytes, self.matrix_bytes, self.artifact_bytes)
        return [self.form, told, error, kl, *(f"{size / 1e6:.2f}" for size in sizes)]


HEADS = ("form", "share of the matrices' bytes", "largest error", "KL", "file, MB", "its matrices, MB", "as stored, MB")


def table(rows: Sequence[FateRow]) -> str:
    """All rows in Markdown."""
    lines = [HEADS, tuple("---" for _ in HEADS), *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def measured(form: str, model: Path, text: torch.Tensor, **options: Any) -> FateRow:
    """What becomes of one checkpoint; ``options``: of the export."""
    request = resolve_options(ExportOptions(model, out=Path("unwritten.edgec"), **options)).request
    program = capture(request.source, stream_weights(request.source), request.spec, request.limits)
    program = run_passes(program, passes_for(request.recipe))
    fates = judge_stored(program, request.form.static and request.form.half)
    return _row(form, fates, program, _divergence(request, program, text), _weight_bytes(model))


TARGETS: Mapping[str, Mapping[str, str]] = {
    "host, android-cpu": {},
    "iphone": {"target": "iphone"},
    "iphone, --unit gpu": {"target": "iphone", "unit": "gpu"},
    "snapdragon": {"target": "snapdragon-8-elite"},
    "host, --format onnx": {"format": "onnx"},
}
"""Targets by what they are called in the table, as an export is asked for them."""


def on_targets(model: Path) -> Iterator[FateRow]:
    """What becomes of a checkpoint on each target."""
    from edgec.exporter.sources.tokenizer import load_tokenizer

    source = resolve(str(model))
    assert source.path is not None
    ids = load_tokenizer(source.path)((STORIES / "held-out.txt").read_text())["input_ids"]
    for name, options in TARGETS.items():
        yield measured(name, model, torch.tensor(ids[:_TOKENS]), **options)


def _weight_bytes(model: Path) -> int:
    files = [model] if model.is_file() else list(model.glob("*.safetensors"))
    return sum(file.stat().st_size for file in files)


def _row(form: str, fates: Sequence[CheckpointMatrix], program: Program, kl: float | None, file_bytes: int) -> FateRow:
    names, decided = {matrix.name for matrix in fates}, decisions_of(program.graph)
    stored = {one.name: one.bytes for one in decided if one.name in names}
    return FateRow(
        form,
        dict(Counter(matrix.fate for matrix in fates)),
        {share.fate: share.share for share in fate_shares(fates)},
        max(matrix.error for matrix in fates),
        kl,
        file_bytes,
        sum(matrix.bytes for matrix in fates),
        sum(stored.values()),
    )


def _divergence(request: ExportRequest, program: Program, text: torch.Tensor) -> float:
    """The mean KL of the graph's logits from those of transformers with the checkpoint's own values in float32."""
    source = request.source
    assert source.weights is not None
    model = source.build_on("cpu")
    values = {name: source.weights.tensor(name).float() for name in source.weights.names()}
    model.load_state_dict(values, strict=False)
    model.tie_weights()
    fill_floats(program.graph)
    with torch.no_grad():
        wanted = model.eval()(input_ids=text[None]).logits[0].float()
        got: Any = program.graph(text[None], torch.arange(len(text)))
    return float(kl_rows(wanted, (got if isinstance(got, torch.Tensor) else got[0])[0].float()).mean())


def held_out() -> torch.Tensor:
    """The beginning of stories that the model was not trained on: int64 [tokens]."""
    from transformers import AutoTokenizer

    text = (STORIES / "held-out.txt").read_text()
    return torch.tensor(AutoTokenizer.from_pretrained(STORIES)(text)["input_ids"][:_TOKENS])


def checkpoints(names: Sequence[str], folder: Path) -> Iterator[tuple[str, Path]]:
    """Write the asked types and formats of tiny-stories one after the other; each is removed after its turn."""
    quantise, source = ggml(ROOT), resolve(str(STORIES))
    kinds = [kind for kind in TYPES if quantise is not None or kind in OF_THE_PACKAGE]
    for kind in (kind for kind in kinds if not names or kind in names):
        file = write_types(source, lambda parameter, kind=kind: kind, quantise or by_package, folder / "m.gguf")  # type: ignore[misc]
        yield kind, file
        file.unlink()
    for form, (settings, parts) in FORMATS.items():
        if not names or form in names:
            write_packed(folder / "m", settings, parts)
            yield form, folder / "m"
            rmtree(folder / "m")


def real(folder: Path) -> list[FateRow]:
    """Eight layers of a real architecture, with all types of GGUF in turn: a row for each type."""
    quantise: Quantise = ggml(ROOT) or by_package
    kinds = cycle(TYPES if ggml(ROOT) else OF_THE_PACKAGE)
    config = {**json.loads(REAL.read_text()), "num_hidden_layers": _LAYERS, "layer_types": None}
    (folder / "config.json").write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    source = resolve(str(folder / "config.json"), random_weights=True)
    file = write_types(source, lambda parameter: next(kinds), quantise, folder / "real.gguf")
    request = resolve_options(ExportOptions(file, out=folder / "unwritten.edgec")).request
    program = capture(request.source, stream_weights(request.source), request.spec, request.limits)
    program = run_passes(program, passes_for(request.recipe))
    fates, size = judge_stored(program, half=False), file.stat().st_size
    by_kind = {kind: [matrix for matrix in fates if matrix.found == kind] for kind in TYPES}
    return [_row(kind, part, program, None, size) for kind, part in by_kind.items() if part]


def main() -> None:
    """Measure, print the table, and write it as JSON where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="types and formats; all where none is named")
    parser.add_argument("--real", action="store_true", help="eight layers of Qwen3-0.6B as well")
    parser.add_argument("--json", type=Path, help="write all rows to this file")
    parser.add_argument("--model", type=Path, help="this checkpoint instead, on every target")
    options = parser.parse_args()
    rows: list[FateRow] = []
    if options.model:
        for row in on_targets(options.model):
            rows.append(row)
            print(row.cells(), flush=True)
        print(table(rows))
        return
    with TemporaryDirectory() as scratch:
        text = held_out()
        for form, model in checkpoints(options.names, Path(scratch)):
            rows.append(measured(form, model, text))
            print(rows[-1].cells(), flush=True)
        whole = real(Path(scratch)) if options.real else []
    print(table(rows), *([f"\n{REAL.stem}, {_LAYERS} layers\n\n{table(whole)}"] if whole else []), sep="\n")
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in (*rows, *whole)], indent=2) + "\n")


if __name__ == "__main__":
    main()
