"""The parts of a run, in order; each returns fields of ``Results``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from benchmarks.harness.artifacts import GGUF, Made, float16_gguf
from benchmarks.harness.bench import Bench, Fields, PartOfRun
from benchmarks.harness.limits import measure_limits
from benchmarks.harness.memory import measure_memory
from benchmarks.harness.models import Model, weights
from benchmarks.harness.processes import ProcessFailed, run_worker
from benchmarks.harness.results import Agreement, Artifact, Export, Failure, ModelFacts
from benchmarks.harness.rounds import FIRST_LOAD, curves, missed, speeds
from benchmarks.harness.scripts import SCRIPTS, run_script
from benchmarks.harness.subjects import HELD, LARGE, LLAMA, NOT_RUN, OWN, SPEED, Subject
from benchmarks.peers.environment import ENVIRONMENTS

_BF16_BYTES = 2
_DECODED = 8
_AGREEMENT_TOKENS = 8
# Parts that compare no model of ``SPEED``.
_ABOUT_OTHERS = {"long context", *(script.name for script in SCRIPTS)}


def _limits(bench: Bench) -> Fields:
    bench.say("memory bandwidth and arithmetic")
    settings = bench.settings
    repeats = 1 if settings.quick else 5
    rows = partial(measure_limits, settings.build, settings.threads, repeats)
    return {"limits": bench.once({"repeats": repeats}, lambda: {"rows": rows()})["rows"]}


def _engine(bench: Bench) -> Fields:
    """Compile the engine before anything is timed, so that no export includes it."""
    from edgec.engine.compile.build import build_runner

    build_runner(announce=bench.say)
    return {}


def _peers(bench: Bench) -> Fields:
    """Make the peers' environments, and record their versions and which instructions llama.cpp was compiled for.

    An optional peer's environment that cannot be made is reported with its artifact.
    """
    bench.say("llama.cpp's environment (compiled from source on first use)")
    versions = run_worker(GGUF, {"kind": "versions"}, python=bench.shop.peers)
    optional = {subject.maker for subject in bench.all_subjects() if subject.optional}
    for maker in sorted(optional):
        bench.say(f"the environment of {maker} (installed on first use)")
        with suppress(ProcessFailed):
            bench.shop.python(maker)
            versions |= ENVIRONMENTS[maker].versions()
    return {"versions": list(versions.items())}


def _artifacts(bench: Bench) -> Fields:
    """Make every artifact; the exports of the compared models are figures themselves."""
    compared = bench.all_subjects()
    fields: Fields = {"artifacts": [], "exports": []}
    subjects = [*compared, *bench.long_context()]
    for done, subject in enumerate(subjects):
        bench.say(f"{subject.model.name}: {subject.name}", done / len(subjects))
        try:
            made = bench.shop.made(subject)
        except ProcessFailed as failed:
            bench.failures.append(missed(subject, failed))
            continue
        if done < len(compared):
            fields["artifacts"].append(_artifact(subject, made))
            fields["exports"] += [_export(subject, made.cost)] if made.cost else []
    bench.failures += [failure for model, made in bench.settings.models.items() for failure in _not_run(model, made)]
    fields["models"] = [_facts(subjects[0].model) for subjects in bench.settings.models.values()]
    return fields


def _not_run(model: str, subjects: Sequence[Subject]) -> list[Failure]:
    """The peers that nothing here drives, for the tables of a model that has peers at all."""
    compared = any(subject.peer for subject in subjects)
    return [
        Failure(part=f"{model}: {name}", what=f"not run: {why}", optional=True)
        for name, why in NOT_RUN.items()
        if compared
    ]


def _artifact(subject: Subject, made: Made) -> Artifact:
    return Artifact(
        model=subject.model.name,
        subject=subject.name,
        file_bytes=made.file_bytes,
        decode_bytes_computed=made.decode_bytes or _decode_bytes(subject),
        note=subject.note,
    )


def _decode_bytes(subject: Subject) -> int | None:
    """The bytes of all matrices by their bits; the embedding's one row is too small to count."""
    if subject.matrix_bits is None:
        return None
    return int((subject.model.matrix_values + subject.model.vocab_values) * subject.matrix_bits) // 8


def _export(subject: Subject, cost: Mapping[str, Any]) -> Export:
    bf16 = _BF16_BYTES * subject.model.parameters
    return Export(model=subject.model.name, subject=subject.name, bf16_bytes=bf16, **cost)


def _facts(model: Model) -> ModelFacts:
    layers = int(model.config["num_hidden_layers"])
    values = {"matrix_values": model.matrix_values, "vocab_values": model.vocab_values}
    return ModelFacts(name=model.name, about=model.about, layers=layers, **values)


def _agreement(bench: Bench) -> Fields:
    """Compare llama.cpp's float16 form with transformers; the largest model differs from the first only in depth."""
    models = [subjects[0].model for name, subjects in bench.settings.models.items() if name not in (*LARGE, *HELD)]
    return {"agreements": [bench.once({"model": m.name}, partial(_agree, bench, m)) for m in models]}


def _agree(bench: Bench, model: Model) -> dict[str, Any]:
    bench.say(f"{model.name}: llama.cpp and transformers")
    tokens = [(7 * i * i + 3) % int(model.config["vocab_size"]) for i in range(_AGREEMENT_TOKENS)]
    job = {"kind": "logits", "artifact": str(float16_gguf(bench.shop, model)), "threads": 2, "context": 64}
    rows = {"tokens": tokens, "rows": len(tokens), "kv": "float32"}
    peer_logits = run_worker(LLAMA, {**job, **rows}, python=bench.shop.peers)["logits"]
    folder = weights(model, bench.shop.model_folder(model)).parent
    job = {"folder": str(folder), "tokens": tokens, "logits": peer_logits}
    figures = run_worker("benchmarks.harness.agreement", job)
    return Agreement(model=model.name, positions=len(tokens), **figures).model_dump()


def _speed(model: str, budget_s: float, bench: Bench) -> Fields:
    subjects = bench.subjects(model)
    cases = bench.settings.cases(model)
    job = {"kind": "speed", "cases": [case.to_json() for case in cases]}
    turns = bench.rounds(budget_s)
    once = replace(turns, count=1, threads=bench.settings.threads[-1:])
    first, unloadable = once.take(subjects, {"kind": "speed", "cases": []})
    outcomes, failures = turns.take(subjects, job)
    bench.failures += [*unloadable, *failures]
    return {"speeds": [*speeds(first, (), FIRST_LOAD), *speeds(outcomes, cases)]}


def _profile(bench: Bench) -> Fields:
    """Profile the first model's plain subject, as ``edgec bench --profile`` does."""
    own = [subject for subject in bench.all_subjects() if subject.name == OWN][:1]
    rows = []
    for subject, threads in product(own, bench.settings.threads):
        bench.say(f"{subject.model.name}: {subject.name}, {threads} threads")
        rows += bench.once({"threads": threads}, partial(_phases, bench, subject, threads))["phases"]
    return {"profiles": rows}


def _phases(bench: Bench, subject: Subject, threads: int) -> dict[str, Any]:
    prompt, new = (32, 8) if bench.settings.quick else (512, 32)
    shape = {"prompt_tokens": prompt, "new_tokens": new, "threads": threads, "repetitions": 3}
    job = {"kind": "profile", "bundle": str(bench.shop.made(subject).path), **shape}
    phases = run_worker("edgec.runtime_py.bench.job", job)["result"]["phases"]
    common = {"model": subject.model.name, "subject": subject.name, "threads": threads}
    return {"phases": [{**common, **phase} for phase in phases]}


def _memory(bench: Bench) -> Fields:
    return {"memory": measure_memory(bench)}


def _contexts(budget_s: float, bench: Bench) -> Fields:
    job = {"kind": "contexts", "contexts": bench.settings.contexts, "steps": _DECODED}
    turns = replace(bench.rounds(budget_s), threads=bench.settings.threads[-1:])
    outcomes, failures = turns.take(bench.long_context(), job)
    bench.failures += failures
    return {"contexts": curves(outcomes)}


def _speed_part(model: str, budget_s: float) -> PartOfRun:
    return PartOfRun(f"speed of {model}", budget_s, partial(_speed, model, budget_s))


def parts(quick: bool, more: bool = False, models: Collection[str] = ()) -> tuple[PartOfRun, ...]:
    """All parts, in order; only the scripts do not depend on other parts.

    Args:
        quick: tiny models, no peers.
        more: also what takes longest.
        models: only what concerns these, also where they take longest; none: all.
    """
    unwanted = {f"speed of {name}" for name in SPEED if name not in models} | _ABOUT_OTHERS
    every = _parts(quick, more or bool(models))
    return tuple(part for part in every if not models or part.name not in unwanted)


def _parts(quick: bool, more: bool) -> tuple[PartOfRun, ...]:
    if quick:
        return (
            PartOfRun("limits", 3, _limits),
            PartOfRun("engine", 40, _engine),
            PartOfRun("artifacts", 50, _artifacts),
            _speed_part("tiny", 20),
            PartOfRun("memory", 10, _memory),
            PartOfRun("profile", 10, _profile),
            PartOfRun("long context", 20, partial(_contexts, 60)),
        )
    return (
        PartOfRun("limits", 20, _limits),
        PartOfRun("engine", 40, _engine),
        PartOfRun("peers", 30, _peers),
        PartOfRun("agreement", 40, _agreement),
        PartOfRun("artifacts", 1000, _artifacts),
        _speed_part("q8L", 500),
        _speed_part("smol", 310),
        _speed_part("qwen3", 460),
        *((_speed_part("q17L", 150), _speed_part("q4L", 220), _speed_part("q8L-avx2", 500)) if more else ()),
        PartOfRun("memory", 105, _memory),
        PartOfRun("profile", 25, _profile),
        PartOfRun("long context", 380, partial(_contexts, 400)),
        *(PartOfRun(script.name, script.expected_s, partial(run_script, script)) for script in SCRIPTS),
    )
