"""iPhones and simulators through stand-ins for Apple's tools: calls, answers and refusals."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from edgec.apps.bench import transport as apple_transport
from edgec.apps.bench.built_app import GIVEN
from edgec.bundle.folder import write_bundle
from edgec.bundle.golden import golden_bytes
from edgec.devices import connected
from edgec.devices.apple.connected import apple_device, check_ready
from edgec.devices.apple.iphone import Iphone
from edgec.devices.apple.pymobiledevice import PyMobileDevicePhone
from edgec.devices.apple.xcrun import json_object
from edgec.devices.connected import connected_devices
from edgec.devices.transport import Conditions, connect
from edgec.errors import EdgecError, InputError
from edgec.runtime_py.bench.bench import bench
from edgec.runtime_py.bench.record import RepetitionRecord, read_records
from tests.apps.ios_bundles import GOLDEN, decoder_manifest
from tests.devices.apple import apple_answers as answers
from tests.devices.apple.app_result import app_result

BIN = Path(__file__).parent / "bin"
IOS, SIM = f"ios:{answers.UDID}", f"sim:{answers.SIMULATOR}"
SHORT: dict[str, Any] = {"prompt_tokens": 20, "new_tokens": 4}


class Tools:
    """The folder of stand-ins for Apple's tools, and the answers that they give."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "after-launch").mkdir(parents=True)
        self.answer("list-devices", answers.devices(answers.phone()))
        (folder / "simctl-list.json").write_text(json.dumps(answers.SIMULATORS))
        (folder / "usbmux-list.json").write_text(json.dumps(answers.USBMUX))

    def answer(self, name: str, content: dict[str, Any]) -> None:
        (self.folder / f"{name}.json").write_text(json.dumps(content))

    def app_writes(self, name: str, text: str) -> None:
        (self.folder / "after-launch" / name).write_text(text)

    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
    monkeypatch.setenv("XCRUN_SAYS", str(tmp_path / "says"))
    monkeypatch.setattr(apple_transport, "POLL_S", 0.01)
    made = Tools(tmp_path / "says")
    made.app_writes("result.jsonl", app_result(IOS))
    return made


@pytest.fixture(scope="module")
def ios_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle whose weights are made up: the app that would run them is not compiled here."""
    path = tmp_path_factory.mktemp("ios") / "tiny.edgec"
    files: dict[str, bytes | Path] = {
        "golden.json": golden_bytes(GOLDEN),
        "generation_config.json": b'{"eos_token_id": [2]}',
        "tokenizer/tokenizer.json": b"{}",
        "tokenizer/tokenizer_config.json": b'{"eos_token": "</s>"}',
        "model.pte": b"weights",
    }
    write_bundle(path, decoder_manifest("pte-cpu"), files)
    return path


def refused(bundle: Path, device: str = IOS, **conditions: Any) -> EdgecError:
    with pytest.raises(EdgecError) as caught:
        bench(bundle, device, conditions=Conditions(**conditions), **SHORT)
    assert caught.value.fix and caught.value.where
    return caught.value


@pytest.mark.long
def test_an_iphone_is_measured_by_its_app(tools: Tools, ios_bundle: Path, tmp_path: Path) -> None:
    result = bench(ios_bundle, IOS, **SHORT, out=tmp_path / "run.jsonl")
    records = read_records(tmp_path / "run.jsonl")
    assert [r.ttft_ms for r in records if isinstance(r, RepetitionRecord)] == [50.0] * 5
    assert {figure.name for figure in result.figures} >= {"TTFT", "decode", "warm load"}
    verbs = [" ".join(call[1:4]) for call in tools.calls() if call[0] == "devicectl"]
    assert verbs[0].startswith("list devices") and verbs[1] == "device install app"
    assert verbs[-1] == "device uninstall app" and "device process launch" in verbs
    job = json.loads((tools.folder / "container" / "Documents" / "job.json").read_text())
    assert (job["device"], job["prompt_tokens"], job["loads"]) == (IOS, 20, 3)
    launch = next(call for call in tools.calls() if call[1:4] == ["device", "process", "launch"])
    assert "--console" not in launch and "--terminate-existing" in launch


@pytest.mark.long
def test_json_is_found_among_junk_on_stdout(tools: Tools, ios_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XCRUN_STDOUT", "1")
    assert bench(ios_bundle, IOS, **SHORT).figures


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("no json { at all }", {}),
        ('progress {x} 10% {"a": {"b": "}"}} done {}', {"a": {"b": "}"}}),
        ('{}\n{"a": 1', {}),
        ('[{"a": 1}]', {"a": 1}),
    ],
)
def test_the_object_among_junk(text: str, expected: dict[str, Any]) -> None:
    assert json_object(text, "ios", "Listing devices") == expected


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"paired": "unpaired"}, "E554"),
        ({"mode": "disabled"}, "E555"),
        ({"tunnel": "unavailable"}, "E543"),
        ({"version": "16.7"}, "E556"),
        ({"version": "16"}, "E556"),
    ],
)
def test_a_phone_that_is_not_ready(tools: Tools, ios_bundle: Path, changes: dict[str, str], code: str) -> None:
    tools.answer("list-devices", answers.devices(answers.phone(**changes)))
    assert refused(ios_bundle).code == code
    assert not any(call[1:3] == ["device", "install"] for call in tools.calls())


@pytest.mark.parametrize(
    ("has", "needs", "refused"), [("17", "17.0", False), ("17.0.1", "17", False), ("17", "17.0.1", True)]
)
def test_versions_of_different_lengths(has: str, needs: str, refused: bool) -> None:
    device = apple_device(answers.phone(version=has))
    assert device is not None
    with pytest.raises(InputError, match="E556") if refused else nullcontext():
        check_ready(device, IOS, needs)


def test_a_phone_that_is_not_there(tools: Tools, ios_bundle: Path) -> None:
    tools.answer("list-devices", answers.devices())
    assert refused(ios_bundle).code == "E541"


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "answer", "code"),
    [
        ("device-install-app", answers.LOCKED_TUNNEL, "E553"),
        ("device-process-launch", answers.LOCKED_LAUNCH, "E553"),
        ("device-process-launch", answers.UNTRUSTED, "E554"),
        ("device-install-app", answers.STRANGE, "E557"),
    ],
)
def test_what_the_tool_refuses(tools: Tools, ios_bundle: Path, command: str, answer: dict[str, Any], code: str) -> None:
    tools.answer(command, answer)
    assert refused(ios_bundle).code == code
    # An installation that failed may have come far enough to leave the app.
    assert tools.calls()[-1][1:4] == ["device", "uninstall", "app"]


@pytest.mark.long
def test_an_interrupted_installation_leaves_no_app(
    tools: Tools, ios_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(phone: Iphone, app: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Iphone, "install", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bench(ios_bundle, IOS, **SHORT)
    assert tools.calls()[-1][1:4] == ["device", "uninstall", "app"]


@pytest.mark.long
@pytest.mark.parametrize("left", [(), (answers.phone(tunnel="unavailable"),)])
def test_a_phone_that_is_unplugged_meanwhile_is_told(
    tools: Tools, ios_bundle: Path, left: tuple[dict[str, Any], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = Iphone.launch

    def unplugged(phone: Iphone, app_id: str) -> None:
        launch(phone, app_id)
        tools.answer("list-devices", answers.devices(*left))
        (tools.folder / "container" / "Documents" / "result.jsonl").unlink()

    monkeypatch.setattr(Iphone, "launch", unplugged)
    error = refused(ios_bundle, silence_s=3.0)
    assert error.code == ("E543" if left else "E541")


def test_a_file_that_is_not_there_yet_is_waited_for(tools: Tools, ios_bundle: Path) -> None:
    assert Iphone(answers.UDID).read("app", "nothing.txt") == ""


@pytest.mark.long
def test_a_phone_without_a_mac_that_is_unplugged(tools: Tools) -> None:
    phone = PyMobileDevicePhone(answers.UDID)
    assert phone.read("app", "nothing.txt") == ""
    (tools.folder / "usbmux-list.json").write_text("[]")
    with pytest.raises(InputError, match="E541"):
        phone.read("app", "nothing.txt")


@pytest.mark.long
def test_an_interruption_ends_the_waiting(tools: Tools, ios_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apple_transport, "POLL_S", 600.0)
    tools.app_writes("result.jsonl", "\n")
    transport = connect(IOS)
    job = {"kind": "app", "bundle": str(ios_bundle), "seconds": 0.0, "cool_down_s": 0.0, "warmups": 1, "repetitions": 5}
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(transport.run, job | SHORT)
        while not (tools.folder / "container" / "Documents" / "result.jsonl").exists():
            time.sleep(0.02)
        transport.close()
        with pytest.raises(InputError, match="E566"):
            running.result(timeout=60)
    assert tools.calls()[-1][1:4] == ["device", "uninstall", "app"]


@pytest.mark.long
def test_the_app_s_own_failure_is_told(tools: Tools, ios_bundle: Path) -> None:
    tools.app_writes("result.jsonl", "\n")
    tools.app_writes("error.txt", "failed: the model does not fit")
    error = refused(ios_bundle)
    assert error.code == "E558" and "does not fit" in error.why
    assert tools.calls()[-1][1:4] == ["device", "uninstall", "app"]


@pytest.mark.long
def test_an_app_that_never_ends(tools: Tools, ios_bundle: Path) -> None:
    tools.app_writes("result.jsonl", "\n")
    assert refused(ios_bundle, silence_s=0.3).code == "E558"


@pytest.mark.long
def test_an_app_may_take_as_long_as_its_job(tools: Tools, ios_bundle: Path) -> None:
    tools.app_writes("result.jsonl", "\n")
    with pytest.raises(InputError, match="E558") as caught:
        bench(ios_bundle, IOS, conditions=Conditions(silence_s=0.2), sustained_minutes=0.005, **SHORT)
    assert "0.5 s" in caught.value.why


@pytest.mark.long
def test_a_result_that_is_not_a_record(tools: Tools, ios_bundle: Path) -> None:
    tools.app_writes("result.jsonl", '{"half": \n')
    assert refused(ios_bundle).code == "E558"


def test_xcode_cannot_build_the_app(tools: Tools, ios_bundle: Path) -> None:
    (tools.folder / "xcodebuild-error").write_text("error: No profiles for 'org.example' were found\n")
    error = refused(ios_bundle)
    assert error.code == "E557" and "No profiles" in error.why


@pytest.mark.long
def test_a_simulator_s_times_are_not_speeds(tools: Tools, ios_bundle: Path) -> None:
    tools.app_writes("result.jsonl", app_result(SIM))
    result = bench(ios_bundle, SIM, **SHORT)
    assert result.figures == () and all(record.simulated for record in result.records)
    assert all("measured" not in record.obtained for record in result.records)


def test_an_odd_device_does_not_hide_the_others(tools: Tools) -> None:
    hostile = answers.phone() | {
        "identifier": "X",
        "hardwareProperties": {"udid": "X", "marketingName": "\x1b[2J[/nope]"},
    }
    odd: list[Any] = [None, 5, {}, {"hardwareProperties": []}, answers.phone() | {"deviceProperties": "none"}, hostile]
    tools.answer("list-devices", answers.devices(answers.phone(), *odd))
    groups = {"com.apple.CoreSimulator.SimRuntime.iOS-27-0": None, **answers.SIMULATORS["devices"]}
    (tools.folder / "simctl-list.json").write_text(json.dumps({"devices": groups}))
    devices, faults = connected_devices()
    listed = {device.address: device.product for device in devices}
    assert listed[IOS] == "iPhone 16 Pro" and listed["ios:X"] == "[2J[/nope]" and SIM in listed and faults == ()


@pytest.mark.parametrize("said", ['{"result":' * 50_000, '{"result": {"devices": [1e999, NaN]}}', "{" * 50_000])
def test_an_unusable_list_is_the_tool_s_fault_and_the_others_are_listed(tools: Tools, said: str) -> None:
    (tools.folder / "simctl-list.json").write_text(said)
    devices, faults = connected_devices()
    assert [fault.code for fault in faults] == ["E557"] and IOS in [device.address for device in devices]


def test_an_iphone_without_a_mac(
    tools: Tools, ios_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = tmp_path / "bin"
    alone.mkdir()
    (alone / "pymobiledevice3").symlink_to(BIN / "pymobiledevice3")
    monkeypatch.setenv("PATH", f"{alone}:/usr/bin:/bin")
    error = refused(ios_bundle)
    assert error.code == "E552" and "[ios]" in error.fix
    (tmp_path / "Bench.ipa").write_bytes(b"app")
    monkeypatch.setenv(GIVEN, str(tmp_path / "Bench.ipa"))
    assert bench(ios_bundle, IOS, **SHORT).figures


def test_an_android_bundle_is_refused(tools: Tools, tmp_path: Path) -> None:
    manifest = decoder_manifest("pte-cpu", target="android-cpu")
    write_bundle(tmp_path / "x.edgec", manifest, {"model.pte": b"x"})
    assert refused(tmp_path / "x.edgec").code == "E460"


def test_devices_are_listed_with_what_is_wrong(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connected, "_android", lambda: iter(()))
    tools.answer("list-devices", answers.devices(answers.phone(mode="disabled")))
    listed = {device.address: device for device in connected_devices()[0]}
    phone = listed[IOS]
    assert (phone.product, phone.chip, phone.state) == ("iPhone 16 Pro", "Apple A18 Pro", "developer mode off")
    assert "Settings" in phone.fix and listed[SIM].simulated and listed["host"].state == "ready"
