"""The engine's own reader of adapter files: it takes what Python takes, and refuses what Python refuses."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.bundle.folder import open_bundle
from edgec.errors import InputError
from edgec.runtime_py.adapters.adapter_file import Adapter, read_adapter, write_adapter
from edgec.runtime_py.adapters.make import bind
from edgec.runtime_py.adapters.peft_folder import read_peft
from edgec.runtime_py.engines.engine import EngineModel
from edgec.runtime_py.engines.engine_adapter import EngineAdapter
from edgec.runtime_py.engines.engine_library import library
from edgec.runtime_py.engines.open_artifact import artifact_digest
from tests.runtime_py.adapters.hostile import LIES, one_module, sealed_lie
from tests.runtime_py.adapters.loras import EVERY, pairs, write_lora

TOKENS = [np.array([[3, 4, 5, 6]]), np.arange(4), np.array([3])]
# Everything that Python's JSON escapes, and letters of one to four bytes.
TRAINED_ON = 'a"b\\c/\b\f\n\r\t\x01\x7f\u00e9\u6f22\U0001f600'


@pytest.fixture(scope="module")
def model(four_bits: Path) -> EngineModel:
    return EngineModel(four_bits / "model.pte")


@pytest.fixture(scope="module")
def made(four_bits: Path, tmp_path_factory: pytest.TempPathFactory) -> Adapter:
    folder = write_lora(tmp_path_factory.mktemp("lora") / "every", pairs(EVERY), base_model_name_or_path=TRAINED_ON)
    return bind(read_peft(folder), open_bundle(four_bits))


@pytest.fixture
def base(four_bits: Path) -> str:
    return artifact_digest(open_bundle(four_bits))


class Read:
    """What the engine makes of a file: a handle, or why not."""

    def __init__(self, model: EngineModel, path: Path, base: str) -> None:
        error = ctypes.create_string_buffer(1024)
        self.handle = library().edgec_adapter_read(model._handle, str(path).encode(), base.encode(), error, len(error))
        self.digest = library().edgec_adapter_digest(self.handle).decode()
        self.why = error.value.decode(errors="replace")

    def close(self) -> None:
        library().edgec_adapter_close(self.handle)


def test_a_file_gives_the_bits_that_its_adapter_gives_from_memory(
    model: EngineModel, made: Adapter, base: str, tmp_path: Path
) -> None:
    write_adapter(made, tmp_path / "a")
    read, session, other = Read(model, tmp_path / "a", base), model.session(), model.session()
    assert read.digest == made.digest and not read.why
    session.use_adapter(read.handle)
    read.close()
    from_memory = EngineAdapter(model, made.changes)
    other.use_adapter(from_memory.handle)
    np.testing.assert_array_equal(session.run(TOKENS)[0], other.run(TOKENS)[0])


def test_a_file_of_another_artifact_is_refused(model: EngineModel, made: Adapter, base: str, tmp_path: Path) -> None:
    write_adapter(made, tmp_path / "a")
    assert "made for the artifact" in Read(model, tmp_path / "a", "0" * 64).why
    for path in (tmp_path, tmp_path / "absent", Path("/dev/null")):
        assert Read(model, path, base).handle is None


@pytest.mark.long
@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_damaged_files_are_refused_as_python_refuses_them(
    four_bits: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    model, artifact = _shared(four_bits)
    path = tmp_path_factory.getbasetemp() / "reader-damaged"
    write_adapter(one_module(four_bits), path)
    raw = bytearray(path.read_bytes())
    header = int.from_bytes(raw[:8], "little") + 8
    for _ in range(data.draw(st.integers(1, 2))):
        # Most of them in the header, where the reader decides.
        place = data.draw(st.one_of(st.integers(0, header - 1), st.integers(0, len(raw) - 1))) % len(raw)
        kind = data.draw(st.sampled_from(["byte", "cut", "gone", "more"]))
        if kind == "byte":
            raw[place] = data.draw(st.one_of(st.integers(0, 255), st.sampled_from(list(b'"\\{}[],:0 -eu'))))
        elif kind == "cut":
            del raw[place:]
        elif kind == "gone":
            del raw[place : place + data.draw(st.integers(1, 9))]
        else:
            raw[place:place] = data.draw(st.binary(max_size=9))
        if not raw:
            break
    path.write_bytes(raw)
    read = Read(model, path, artifact)
    try:
        digest = read_adapter(path).digest
    except InputError as error:
        assert error.code == "E695" and read.handle is None and read.why
    else:
        assert (read.digest, read.why) == (digest, "")
        read.close()


@pytest.mark.parametrize("name", LIES)
def test_lies_under_a_right_checksum_are_refused(four_bits: Path, base: str, tmp_path: Path, name: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(sealed_lie(four_bits, tmp_path / "intact", LIES[name]))
    read = Read(EngineModel(four_bits / "model.pte"), path, base)
    assert read.handle is None and read.why and "checksum" not in read.why


_opened: dict[Path, tuple[EngineModel, str]] = {}


def _shared(bundle: Path) -> tuple[EngineModel, str]:
    if bundle not in _opened:
        _opened[bundle] = (EngineModel(bundle / "model.pte"), artifact_digest(open_bundle(bundle)))
    return _opened[bundle]
