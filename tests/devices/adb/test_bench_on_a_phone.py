"""``edgec bench --device adb:...`` against the loopback phone, from the address to the records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgec.bundle.delegates import ON_CPUS
from edgec.bundle.folder import open_bundle, write_bundle
from edgec.bundle.tensor_file import FloatTensor
from edgec.devices.runner.files import check_shell_artifact
from edgec.errors import InputError
from edgec.runtime_py.adapters.adapter_file import AdapterModule, adapter, write_adapter
from edgec.runtime_py.bench.bench import bench
from edgec.runtime_py.bench.compare import compare
from edgec.runtime_py.bench.console import report
from edgec.runtime_py.bench.devices import bench_devices
from edgec.runtime_py.bench.record import LoadRecord, MemoryRecord, RepetitionRecord, RunRecord, read_records
from edgec.runtime_py.engines.open_artifact import artifact_digest
from tests.devices.adb.conftest import Plug
from tests.runtime_py.tiny_decoder import manifest

SHORT: dict[str, Any] = {"prompt_tokens": 20, "new_tokens": 4, "warmups": 1}


@pytest.mark.long
def test_a_phone_is_measured_and_left_as_it_was(plug: Plug, phone_bundle: Path, tmp_path: Path) -> None:
    phone = plug()
    said: list[str] = []
    result = bench(phone_bundle, f"adb:{phone.serial}", **SHORT, out=tmp_path / "run.jsonl", say=said.append)
    records = read_records(tmp_path / "run.jsonl")
    head = next(record for record in records if isinstance(record, RunRecord))
    assert head.simulated and head.before.simulated and head.before.product == "edgec Loopback"
    assert (head.before.battery_percent, head.before.charging, head.before.screen_on) == (88, True, True)
    assert (head.before.temperature_c, head.before.thermal_status) == (31.2, 0)
    assert [r.state for r in records if isinstance(r, LoadRecord)] == ["cold", "warm"] * 3
    assert [r.token_ms for r in records if isinstance(r, RepetitionRecord)] == [[2.0] * 3] * 5
    assert [r.peak_rss_bytes for r in records if isinstance(r, MemoryRecord)] == [50_000_000]
    assert phone.left_behind() == []
    assert any("pushing" in text for text in said)
    assert result.figures == () and result.plot is None


@pytest.mark.long
def test_a_real_phone_has_figures(plug: Plug, phone_bundle: Path) -> None:
    phone = plug()
    phone.set_properties(ro_boot_qemu="0")
    figures = {f.name: f.median for f in bench(phone_bundle, f"adb:{phone.serial}", **SHORT).figures}
    assert figures["TTFT"] == pytest.approx(10) and figures["decode"] == pytest.approx(500)
    assert figures["peak RSS"] == 50 and figures["RSS over idle"] == 30


@pytest.mark.long
def test_an_adapter_travels_to_the_phone(plug: Plug, phone_bundle: Path, tmp_path: Path) -> None:
    phone = plug()
    module = AdapterModule(name="q", key="0" * 64, rank=1, alpha=1.0, scale=1.0)
    a, b = (FloatTensor("F32", shape, memoryview(bytes(16))) for shape in ((1, 4), (4, 1)))
    made = adapter(artifact_digest(open_bundle(phone_bundle)), "tiny", [(module, a, b)])
    write_adapter(made, tmp_path / "pirate.adapter")
    result = bench(phone_bundle, f"adb:{phone.serial}", adapter=tmp_path / "pirate.adapter", **SHORT)
    # The stand-in takes longer with an adapter, and fails where its file is missing; loads are the bundle's.
    assert {r.ttft_ms for r in result.records if isinstance(r, RepetitionRecord)} == {12.0}
    assert {r.subject.adapter for r in result.records} == {made.digest}
    assert phone.left_behind() == []


@pytest.mark.long
def test_ctrl_c_leaves_nothing_behind(plug: Plug, phone_bundle: Path) -> None:
    phone = plug()

    def interrupted(text: str) -> None:
        if "generations" in text:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench(phone_bundle, f"adb:{phone.serial}", **SHORT, say=interrupted)
    assert phone.left_behind() == []


@pytest.mark.long
def test_several_phones_at_once_and_one_failing(
    plug: Plug, phone_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, broken, second = plug(), plug(), plug()
    broken.set_properties(ro_product_cpu_abi="x86")
    devices = [f"adb:{phone.serial}" for phone in (first, broken, second)]
    outcomes = bench_devices(phone_bundle, devices, out=tmp_path / "run.jsonl", **SHORT)
    assert [outcome.device for outcome in outcomes] == devices
    assert outcomes[1].error is not None and outcomes[1].error.code == "E546"
    paths = [outcome.result.out for outcome in outcomes if outcome.result]
    assert len(paths) == 2 and all(path and read_records(path) for path in paths) and len(set(paths)) == 2
    assert [phone.left_behind() for phone in (first, broken, second)] == [[], [], []]
    with pytest.raises(InputError, match="E546"):
        report(outcomes, as_json=True)
    told = json.loads(capsys.readouterr().out)["devices"]
    assert [("error" in device, device.get("simulated")) for device in told] == [
        (False, True),
        (True, None),
        (False, True),
    ]


@pytest.mark.long
def test_an_interruption_ends_all_phones(plug: Plug, phone_bundle: Path) -> None:
    phones = [plug(), plug()]

    def interrupted(text: str) -> None:
        if "generations" in text:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench_devices(phone_bundle, [f"adb:{phone.serial}" for phone in phones], say=interrupted, **SHORT)
    assert [phone.left_behind() for phone in phones] == [[], []]


@pytest.mark.parametrize("backend", ["QnnBackend", "VulkanBackend"])
def test_what_needs_an_app_says_so_before_any_phone_is_asked(backend: str, adb_server: str, tmp_path: Path) -> None:
    runtime = manifest().runtime.model_copy(update={"backends": [backend]})
    write_bundle(tmp_path / "x.edgec", manifest(runtime=runtime), {"model.pte": b"x"})
    with pytest.raises(InputError, match="E551") as caught:
        bench(tmp_path / "x.edgec", "adb:nowhere", **SHORT)
    assert backend in caught.value.why and "edgec embed" in caught.value.fix


@pytest.mark.parametrize("backend", sorted(ON_CPUS))
def test_the_backends_of_cpus_need_no_app(backend: str) -> None:
    runtime = manifest().runtime.model_copy(update={"backends": [backend]})
    check_shell_artifact(manifest(runtime=runtime), "adb:0123")


@pytest.mark.long
def test_runs_of_an_emulator_are_not_compared(plug: Plug, phone_bundle: Path, tmp_path: Path) -> None:
    phone = plug()
    out = tmp_path / "run.jsonl"
    bench(phone_bundle, f"adb:{phone.serial}", **SHORT, out=out)
    with pytest.raises(InputError, match="E160"):
        compare(out, out)
