"""``edgec.plan``: size, memory and speed of a model on a phone, before either is at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgec.quiet import quiet

if TYPE_CHECKING:
    from edgec.exporter.resolve.planned import Planned


@quiet()
def plan(
    model: str | Path,
    target: str | None = None,
    *,
    phone: str | Path | None = None,
    unit: str | None = None,
    recipe: str | None = None,
    task: str | None = None,
    context: int | None = None,
    prompt_tokens: int | None = None,
    adapters: Sequence[str] = (),
    measured: Sequence[str | Path] = (),
    history: bool = True,
    bits: Mapping[str, int | None] | None = None,
) -> Planned:
    """Estimate size, memory and speed of a model on a phone from its config alone, as ``edgec plan`` does.

    Args:
        model: a folder, a config.json, a GGUF file or a hub id.
        target: a phone, as ``edgec targets`` lists them; with ``phone`` also a unit alone.
        phone: the TOML file of a phone of the user's own.
        unit: ``cpu``, ``gpu`` or ``npu`` of the phone; None: its first, or the one that the target names.
        recipe: a name or a file; None: that of the export.
        task: as ``edgec export --task``.
        context: tokens of the KV cache; None: those of the export.
        prompt_tokens: of the prompt that speeds are given for; None: 512, or the context where that is less.
        adapters: each ``NAME=PEFT_FOLDER``.
        measured: files of ``edgec bench --out`` to learn speeds from, each a path or ``PHONE=PATH``.
        history: also learn from what ``edgec bench`` kept of this phone in the cache.
        bits: fields of ``Widths`` to have instead of the recipe's.

    Returns:
        The plan; ``planned_json.to_json`` makes plain data of it, and ``planned_page.page`` what the command prints.

    Raises:
        InputError: E866, no phone is given; E163, it is unknown; E869, its unit is; E860 to E865, its file is wrong;
            E161, E867 or E868, a measurement is; what ``model_recipe``, ``model_shape`` and ``plan`` raise.
    """
    from edgec.devices.phone_file import added_phone, chosen_target
    from edgec.devices.targets import load_target
    from edgec.exporter.resolve.planned import Question, answer
    from edgec.exporter.resolve.planned_learning import History
    from edgec.exporter.resolve.target_choice import on_unit
    from edgec.runtime_py.bench.observed import observations_of, past_observations

    file = None if phone is None else Path(phone)
    with added_phone(file) as key:
        name = chosen_target(key, target)
        known = observations_of(measured)
        past = History(past_observations(on_unit(load_target(name), unit)) if history else ())
        lengths = (context, prompt_tokens)
        asked = Question(str(model), name, recipe, task, *lengths, adapters, known, past, bits or {}, file, unit)
        return answer(asked)
