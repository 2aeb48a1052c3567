"""A trained chat model in every named recipe beside llama.cpp's types: bytes, distance from the float model, speed.

    python -m benchmarks.real_models --model FOLDER --text FILE [--chat QUESTIONS.jsonl] [--recipes ...] [--types ...]

Windows of a text, and of conversations that the float model writes (a question of the file, then its answer), are the
same for both tools, and so are the float weights. KL, in nats from transformers in float32, and the shares are over all
positions; a size is that of the whole file, embedding included. Speeds: alternating processes, medians.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.harness.cases import Case
from benchmarks.harness.processes import run_worker

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Logits = NDArray[np.float32]

RECIPES = ("8bit", "5bit", "4bit", "4bit-small", "3bit")
TYPES = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_K_S", "Q4_1", "Q4_0", "IQ4_XS", "Q3_K_M", "Q2_K")
WINDOW, ANSWER, BEGIN = 512, 160, 100_000
CONTEXT = 1024
CASES = (
    Case("prefill of 512, ms", 0, 512, warmups=0, repeats=2),
    Case("decode at 128, tokens/s", 128, 1, steps=32, repeats=2),
)


@dataclass(frozen=True)
class Form:
    """One form of the model.

    Attributes:
        name: in the table.
        module: the worker that times it.
        artifact: a bundle or a GGUF file.
        size_bytes: of the weights' file.
        logits: of windows, float32 [tokens, vocabulary] each.
    """

    name: str
    module: str
    artifact: Path
    size_bytes: int
    logits: Callable[[Sequence[Sequence[int]]], Iterator[Logits]]
    python: Path | None = None


@dataclass
class Row:
    """What was measured: by text ``kl`` with two standard errors and the share of equal top-1; by case and threads."""

    name: str
    size_bytes: int
    kl: dict[str, tuple[float, float]] = field(default_factory=dict)
    same_top1: dict[str, float] = field(default_factory=dict)
    speeds: dict[str, list[float]] = field(default_factory=dict)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="folder as transformers saves it")
    parser.add_argument("--text", type=Path, required=True, help="UTF-8 text")
    parser.add_argument("--chat", type=Path, help='lines of JSON with "turns"')
    parser.add_argument("--known", type=Path, help="text to calibrate on and to make an importance matrix of")
    parser.add_argument("--recipes", nargs="*", default=RECIPES)
    parser.add_argument("--types", nargs="*", default=TYPES, help="of llama.cpp; none leaves it out")
    parser.add_argument("--tokens", type=int, default=1536, help="of each text")
    parser.add_argument("--rounds", type=int, default=0, help="of speed; 0 measures none")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--build", type=Path, default=Path("build/bench"))
    parser.add_argument("--chart", type=Path, help="write KL on the text against size there (SVG)")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    texts = windows(given.model, given.text, given.chat, given.tokens)
    wanted = {name: list(float_logits(given.model, each)) for name, each in texts.items()}
    forms = list(bundles(given.model, given.recipes, given.build, given.known))
    forms += files(given.model, given.types, given.build, given.known)
    rows = [measured(form, texts, wanted) for form in forms]
    for _ in range(given.rounds):
        for form, row in zip(forms, rows, strict=True):
            add_speeds(form, row, given.threads)
    if given.chart:
        given.chart.write_text(chart(rows, given.text.stem))
    print(json.dumps([asdict(row) for row in rows]) if given.json else table(rows))


def windows(model: Path, text: Path, chat: Path | None, tokens: int) -> dict[str, list[list[int]]]:
    """The token ids of windows by the text's name."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    whole = text.read_text(encoding="utf-8")
    # From a place inside a long text: books begin with lists of chapters.
    start = BEGIN if len(whole) > 2 * BEGIN else 0
    ids = tokenizer(whole[start : start + 8 * tokens])["input_ids"][:tokens]
    found = {text.stem: [ids[i : i + WINDOW] for i in range(0, len(ids), WINDOW)]}
    if chat is not None:
        questions = [json.loads(line)["turns"][0] for line in chat.read_text(encoding="utf-8").splitlines()]
        found["chat"] = conversations(model, tokenizer, questions, tokens)
    return found


def conversations(model: Path, tokenizer: Any, questions: Sequence[str], tokens: int) -> list[list[int]]:
    """Questions spread over the file, and what the float model answers, sampled with a seed."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    engine = AutoModelForCausalLM.from_pretrained(model, dtype="float32").eval()
    made: list[list[int]] = []
    for question in questions[:: max(1, len(questions) // 12)]:
        messages = [{"role": "user", "content": question}]
        asked = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        with torch.inference_mode():
            whole = engine.generate(**asked, do_sample=True, temperature=0.7, max_new_tokens=ANSWER)
        made.append(whole[0].tolist()[:WINDOW])
        if sum(map(len, made)) >= tokens:
            break
    return made


def float_logits(model: Path, each: Sequence[Sequence[int]]) -> Iterator[Logits]:
    """Logits of transformers in float32."""
    from edgec.runtime_py.evaluate.reference import FloatModel

    engine = FloatModel(str(model))
    for window in each:
        yield engine.logits(window)


def bundles(model: Path, recipes: Sequence[str], build: Path, known: Path | None) -> Iterator[Form]:
    """Export every recipe for this machine, calibrated on a known text if it is given; no budget refuses it."""
    import edgec

    for recipe in recipes:
        out = build / "real" / f"{model.name}-{recipe}.edgec"
        out.parent.mkdir(parents=True, exist_ok=True)
        print(f"exporting {recipe} ...", file=sys.stderr, flush=True)
        budgets = {"kl_mean": 50.0, "top1_agreement": 0.0}
        bundle = edgec.export(
            model, recipe=recipe, context=CONTEXT, out=out, force=True, budgets=budgets, calibrate=known
        )
        size = (bundle / "model.pte").stat().st_size
        yield Form(f"edgec {recipe}", "benchmarks.harness.edgec_engine", bundle, size, _BundleLogits(bundle))


@dataclass(frozen=True)
class _BundleLogits:
    bundle: Path

    def __call__(self, each: Sequence[Sequence[int]]) -> Iterator[Logits]:
        import numpy as np

        import edgec
        from edgec.runtime_py.decoding.forced_text import forced_rows

        session = edgec.load(self.bundle).session
        for window in each:
            yield np.concatenate([rows for _, rows in forced_rows(session, window)])


def files(model: Path, types: Sequence[str], build: Path, known: Path | None) -> Iterator[Form]:
    """Let llama.cpp quantise the same float weights, embedding included, with importance from a known text if given."""
    from benchmarks.peers.environment import peers_python
    from benchmarks.quality_parts.formats import float16_file

    if not types:
        return
    python, folder = peers_python(build), build / "real" / model.name
    folder.mkdir(parents=True, exist_ok=True)
    plain = float16_file(model, folder, python)
    importance = None if known is None else str(importance_matrix(model, known, folder / "importance.npz"))
    for name in types:
        job = {"source": str(plain), "type": name, "out": str(folder / name), "whole": True, "importance": importance}
        made = run_worker("benchmarks.peers.gguf_quality", {**job, "windows": [[0]]}, python=python)
        file = Path(made["model"])
        logits = _FileLogits(job, python)
        yield Form(f"llama.cpp {name}", "benchmarks.peers.llama_cpp", file, file.stat().st_size, logits, python)


def importance_matrix(model: Path, known: Path, out: Path, tokens: int = 4096) -> Path:
    """Write the mean squares of every linear layer's inputs on a text, by the names of GGUF's tensors."""
    import gguf
    import numpy as np
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    engine = AutoModelForCausalLM.from_pretrained(model, dtype="float32").eval()
    ids = tokenizer(known.read_text(encoding="utf-8")[: 8 * tokens])["input_ids"][:tokens]
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, engine.config.num_hidden_layers)
    sums: dict[str, Any] = {}

    def observe(name: str) -> Callable[..., None]:
        def hook(_: Any, given: tuple[Any, ...], __: Any) -> None:
            squares = given[0].flatten(0, -2).square().sum(0)
            sums[name] = squares if name not in sums else sums[name] + squares

        return hook

    for path, layer in engine.named_modules():
        own = names.get_name(path) if isinstance(layer, torch.nn.Linear) else None
        if own is not None:
            layer.register_forward_hook(observe(f"{own}.weight"))
    with torch.inference_mode():
        for start in range(0, len(ids), WINDOW):
            engine(torch.tensor([ids[start : start + WINDOW]]), use_cache=False)
    np.savez(out, **{name: (total / len(ids)).numpy() for name, total in sums.items()})
    return out


@dataclass(frozen=True)
class _FileLogits:
    job: dict[str, Any]
    python: Path

    def __call__(self, each: Sequence[Sequence[int]]) -> Iterator[Logits]:
        import numpy as np

        made = run_worker("benchmarks.peers.gguf_quality", {**self.job, "windows": list(each)}, python=self.python)
        place = Path(made["logits"])
        flat = np.fromfile(place, np.float32).reshape(-1, made["vocabulary"])
        place.unlink()
        yield from np.split(flat, np.cumsum([len(window) for window in each])[:-1])


def measured(form: Form, texts: dict[str, list[list[int]]], wanted: dict[str, list[Logits]]) -> Row:
    """The distance of a form from the float model on every text."""
    import numpy as np

    from edgec.runtime_py.decoding.forced_text import log_softmax

    row = Row(form.name, form.size_bytes)
    for name, each in texts.items():
        kl, same = [], []
        for reference, logits in zip(wanted[name], form.logits(each), strict=True):
            p, q = log_softmax(reference), log_softmax(logits)
            kl.append((np.exp(p) * (p - q)).sum(1))
            same.append(p.argmax(1) == q.argmax(1))
        every = np.concatenate(kl)
        row.kl[name] = (float(every.mean()), float(2 * every.std() / len(every) ** 0.5))
        row.same_top1[name] = float(np.concatenate(same).mean())
    print(f"{row.name}: {row.kl}", file=sys.stderr, flush=True)
    return row


def add_speeds(form: Form, row: Row, threads: Sequence[int]) -> None:
    """Time every case once more, in a process of its own."""
    for count in threads:
        job = {"kind": "speed", "artifact": str(form.artifact), "threads": count, "context": CONTEXT}
        job["cases"] = [case.to_json() for case in CASES]
        samples = run_worker(form.module, job, python=form.python)["samples"]
        for case in CASES:
            seconds = median(sample["wall_s"] for sample in samples if sample["case"] == case.name)
            value = seconds * 1e3 if case.steps == 1 else case.steps / seconds
            row.speeds.setdefault(f"{case.name}, {count} threads", []).append(value)


def table(rows: Sequence[Row]) -> str:
    """All rows in Markdown, sorted by size."""
    texts, speeds = list(rows[0].kl), list(rows[0].speeds)
    heads = ["", "MB", *(f"KL, {name}" for name in texts), *(f"same top-1, {name}" for name in texts), *speeds]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in sorted(rows, key=lambda row: -row.size_bytes):
        kl = [f"{mean:.4f} ± {error:.4f}" for mean, error in row.kl.values()]
        same = [f"{share:.1%}" for share in row.same_top1.values()]
        timed = [f"{median(row.speeds[name]):.0f}" for name in speeds]
        lines.append("| " + " | ".join([row.name, f"{row.size_bytes / 1e6:.1f}", *kl, *same, *timed]) + " |")
    return "\n".join(lines)


def chart(rows: Sequence[Row], text: str) -> str:
    """KL on a text against size, a colour for each tool, as one SVG document."""
    from edgec.svg import Points, point_chart, stack

    def points(tool: str) -> Points:
        own = sorted((row.size_bytes / 1e6, row.kl[text][0], row.name) for row in rows if row.name.startswith(tool))
        places = tuple((size, kl) for size, kl, _ in own)
        return Points(tool, places, tuple(name.removeprefix(f"{tool} ") for _, _, name in own), places)

    tools = [points(tool) for tool in ("edgec", "llama.cpp")]
    drawn = [each for each in tools if each.at]
    title = "KL divergence from the float model against size"
    return stack([point_chart(title, "MB", "KL, nats", drawn)], [each.name for each in drawn])


if __name__ == "__main__":
    main()
