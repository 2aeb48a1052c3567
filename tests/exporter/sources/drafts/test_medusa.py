from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from edgec.errors import InputError
from edgec.exporter.sources.drafts.kinds import open_heads
from edgec.exporter.sources.drafts.medusa import MedusaFolder
from edgec.passes.contract import run_pass
from edgec.passes.draft.draft_heads import DraftHeads
from edgec.passes.draft.head_weights import HeadsForm
from tests.exporter.sources.drafts.medusa_folders import medusa_heads, write_medusa
from tests.passes.decoders import captured, tiny_model, tokens

WIDTH, VOCAB, ROWS = 32, 96, [3, 9, 23]


def outputs(program: Any) -> tuple[torch.Tensor, ...]:
    with torch.no_grad():
        result: tuple[torch.Tensor, ...] = program.graph(
            torch.tensor([tokens(24)]), torch.arange(24), torch.tensor(ROWS)
        )
        return result


def hidden() -> torch.Tensor:
    """What transformers' own lm_head reads, [1, rows, WIDTH]."""
    with torch.no_grad():
        result: torch.Tensor = (
            tiny_model("llama").model(torch.tensor([tokens(24)]), use_cache=False).last_hidden_state[:, ROWS]
        )
        return result


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("vocabulary", [VOCAB, None], ids=["own", "shared"])
def test_logits_are_those_of_the_modules_that_were_saved(tmp_path: Path, blocks: int, vocabulary: int | None) -> None:
    modules = medusa_heads(3, blocks, WIDTH, vocabulary)
    folder = MedusaFolder(write_medusa(tmp_path, modules, blocks))
    assert folder.form() == HeadsForm(3, WIDTH, vocabulary)
    plain = captured("llama")
    logits, drafts = outputs(run_pass(plain, DraftHeads(folder)))
    wanted = torch.stack([head(hidden()) for head in modules], 2)
    if vocabulary is None:
        wanted = tiny_model("llama").lm_head(wanted)
    # Logits of order 10, summed in another order: float32 rounding.
    torch.testing.assert_close(drafts, wanted, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(logits, outputs_of(plain), atol=2e-5, rtol=1e-5)
    swapped = torch.stack([head(hidden()) for head in reversed(modules)], 2)
    assert vocabulary is None or (drafts - swapped).abs().max() > 0.1


def outputs_of(program: Any) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = program.graph(torch.tensor([tokens(24)]), torch.arange(24), torch.tensor(ROWS))
    return logits


def test_sixteen_bits_a_prefix_and_a_config_that_counts_too_few_heads(tmp_path: Path) -> None:
    """lmsys's folders say two heads and hold five; the weights stay in their stored dtype in the graph."""
    modules = medusa_heads(3, 1, WIDTH, VOCAB).bfloat16()
    folder = MedusaFolder(write_medusa(tmp_path, modules, 1, prefix="medusa_head.", medusa_num_heads=2))
    program = run_pass(captured("llama"), DraftHeads(folder))
    assert program.graph.draft_lm_head_2.dtype == torch.bfloat16
    wanted = torch.stack([head(hidden()) for head in modules.float()], 2)
    torch.testing.assert_close(outputs(program)[1], wanted, atol=1e-4, rtol=1e-4)


def test_pickles_are_read_as_data_and_only_where_they_are_allowed(tmp_path: Path) -> None:
    modules = medusa_heads(2, 1, WIDTH, VOCAB)
    write_medusa(tmp_path, modules, 1, pickled=True)
    with pytest.raises(InputError, match="E107"):
        open_heads(tmp_path)
    (first, _) = open_heads(tmp_path, allow_pickle=True).read()
    assert first.lm_head is not None and torch.equal(first.lm_head, modules.get_parameter("0.1.weight"))


def test_a_pickle_that_runs_code_runs_none(tmp_path: Path) -> None:
    marker = tmp_path / "ran"

    class Attack:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (marker,))

    write_medusa(tmp_path, medusa_heads(2, 1, WIDTH, VOCAB), 1, pickled=True)
    torch.save({"0.0.linear.weight": Attack()}, tmp_path / "medusa_lm_head.pt")
    with pytest.raises(InputError, match="E105"):
        open_heads(tmp_path, allow_pickle=True)
    assert not marker.exists()


def edited(folder: Path, **changes: torch.Tensor | None) -> Path:
    """Replace tensors, or drop those that are None; ``__`` stands for a dot."""
    file = folder / "medusa_lm_head.safetensors"
    state = load_file(file)
    for name, value in changes.items():
        state.pop(name.replace("__", "."), None)
        if value is not None:
            state[name.replace("__", ".")] = value
    save_file(state, file)
    return folder


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"1__0__linear__bias": None}, "missing"),
        ({"1__1__weight": None}, "missing"),
        ({"0__0__linear__weight": None}, "square"),
        ({"0__0__linear__weight": torch.zeros(WIDTH, 16)}, "square"),
        ({"1__0__linear__weight": torch.zeros(16, 16)}, "shape"),
        ({"1__1__weight": torch.zeros(VOCAB - 1, WIDTH)}, "shape"),
        ({"0__1__weight": torch.zeros(VOCAB)}, "shape"),
        ({"1__0__linear__bias": torch.zeros(WIDTH, dtype=torch.int8)}, "int8"),
        ({"sequential_head__weight": torch.zeros(4)}, "nothing is known"),
    ],
)
def test_tensors_that_contradict_the_config_are_named(
    changes: dict[str, torch.Tensor | None], why: str, tmp_path: Path
) -> None:
    folder = edited(write_medusa(tmp_path, medusa_heads(2, 1, WIDTH, VOCAB), 1), **changes)
    with pytest.raises(InputError, match="E844") as error:
        open_heads(folder)
    assert why in error.value.why


@pytest.mark.parametrize(
    "config",
    [{"medusa_num_heads": 3}, {"medusa_num_layers": 2}],
)
def test_configs_that_promise_more_than_the_file_holds(config: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="E844"):
        open_heads(write_medusa(tmp_path, medusa_heads(2, 1, WIDTH, VOCAB), 1, **config))


@pytest.mark.parametrize(
    "config",
    [{"medusa_num_heads": 0}, {"medusa_num_heads": 2**60}, {"medusa_num_layers": "many"}, {"medusa_num_heads": None}],
)
def test_configs_that_make_no_sense(config: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="E843"):
        open_heads(write_medusa(tmp_path, medusa_heads(2, 1, WIDTH, VOCAB), 1, **config))


@pytest.mark.parametrize(("width", "vocabulary"), [(16, VOCAB), (WIDTH, VOCAB + 1)])
def test_heads_of_another_model_are_refused(width: int, vocabulary: int, tmp_path: Path) -> None:
    folder = MedusaFolder(write_medusa(tmp_path, medusa_heads(2, 1, width, vocabulary), 1))
    with pytest.raises(InputError, match="E843") as error:
        run_pass(captured("llama"), DraftHeads(folder))
    assert "tiny/base" in str(error.value.fix)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    folder = write_medusa(tmp_path, medusa_heads(2, 1, WIDTH, VOCAB), 1)
    file = folder / "medusa_lm_head.safetensors"
    file.write_bytes(file.read_bytes()[:-7])
    with pytest.raises(InputError, match="E105"):
        open_heads(folder)
