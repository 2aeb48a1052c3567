"""Bundles from the hub: fetched whole, resumed, reused without a network, and refused where a byte is not as listed."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from edgec.bundle.canonical import canonical_json, seal
from edgec.bundle.folder import open_bundle, read_manifest, write_bundle
from edgec.bundle.hub import located
from edgec.bundle.hub.located import bundle_folder
from edgec.bundle.manifest import FileInfo
from edgec.errors import InputError
from edgec.installation import child_environment
from tests.bundle.bundle_samples import FILES, sample_manifest
from tests.hub_server import TOKEN, Fault, HubServer, Repo, files_of, hub_server, use_hub

ADDRESS = "hub:max/tiny"
LARGE = bytes(range(251)) * 400


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """A hub with one bundle, whose artifact lies in the storage, and an empty cache."""
    monkeypatch.setenv("EDGEC_CACHE_DIR", str(tmp_path / "cache"))
    with hub_server() as server:
        use_hub(server, monkeypatch)
        publish(server, sample(tmp_path))
        yield server


def sample(folder: Path) -> Path:
    write_bundle(folder / "tiny.edgec", sample_manifest(), FILES | {"model.pte": LARGE, "empty.txt": b""})
    return folder / "tiny.edgec"


def publish(server: HubServer, bundle: Path, **extra: bytes) -> str:
    return server.repos.setdefault("max/tiny", Repo()).commit({"README.md": b"# tiny\n", **files_of(bundle), **extra})


def refused(address: str = ADDRESS) -> InputError:
    with pytest.raises(InputError) as caught:
        bundle_folder(address)
    assert all((caught.value.what, caught.value.where, caught.value.why, caught.value.fix))
    return caught.value


def arriving(tmp_path: Path) -> Path:
    (folder,) = (tmp_path / "cache" / "hub").glob("max--tiny@*/arriving")
    return folder


def test_a_path_stays_what_it_is(tmp_path: Path) -> None:
    assert bundle_folder(tmp_path) == bundle_folder(str(tmp_path)) == tmp_path


def test_a_bundle_is_fetched_whole_and_nothing_else(
    hub: HubServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = bundle_folder(ADDRESS)
    assert files_of(folder) == files_of(tmp_path / "tiny.edgec") and open_bundle(folder).files_checked
    assert folder.name == "tiny.edgec" and [path.name for path in folder.parent.iterdir()] == ["tiny.edgec"]
    commit = hub.repos["max/tiny"].branches["main"]
    told = capsys.readouterr().err
    assert commit in told and "MB to fetch" in told and str(folder) in told
    assert not hub.requests("README")


def test_a_copy_is_used_again_after_one_request_and_a_commit_after_none(hub: HubServer) -> None:
    folder = bundle_folder(ADDRESS)
    hub.asked.clear()
    assert bundle_folder(ADDRESS) == folder and len(hub.asked) == 1
    assert bundle_folder(f"{ADDRESS}@{hub.repos['max/tiny'].branches['main']}") == folder and len(hub.asked) == 1


def test_a_new_commit_is_fetched_beside_the_old_one(hub: HubServer, tmp_path: Path) -> None:
    old, commit = bundle_folder(ADDRESS), hub.repos["max/tiny"].branches["main"]
    write_bundle(tmp_path / "new.edgec", sample_manifest(name="new"), FILES)
    publish(hub, tmp_path / "new.edgec")
    assert read_manifest(bundle_folder(ADDRESS)).name == "new"
    assert bundle_folder(f"{ADDRESS}@{commit}") == old


@pytest.mark.parametrize("fault", [Fault("revision/main", 9, status=503), Fault("revision/main", 9, status=429)])
def test_without_the_hub_the_last_known_commit_is_used(
    fault: Fault, hub: HubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = bundle_folder(ADDRESS)
    hub.faults.append(fault)
    assert bundle_folder(ADDRESS) == folder
    assert "the hub cannot be asked" in capsys.readouterr().err


def test_offline_a_copy_is_used_and_what_was_never_fetched_is_refused(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    folder = bundle_folder(ADDRESS)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    hub.asked.clear()
    assert bundle_folder(ADDRESS) == folder
    error = refused("hub:max/other")
    assert error.code == "E103" and "HF_HUB_OFFLINE" in error.fix and not hub.asked


def test_a_hub_that_does_not_answer(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:1")
    assert refused().code == "E103"


def test_a_connection_that_is_cut_goes_on_at_the_byte(hub: HubServer) -> None:
    hub.faults.append(Fault("GET /objects", times=3, cut=30_000))
    bundle_folder(ADDRESS)
    assert [asked.range for asked in hub.requests("GET /objects")] == [
        None,
        "bytes=30000-",
        "bytes=60000-",
        "bytes=90000-",
    ]


def test_a_server_that_ignores_ranges_sends_the_file_again(hub: HubServer) -> None:
    hub.faults += [Fault("GET /objects", cut=30_000), Fault("GET /objects", ranges=False)]
    assert open_bundle(bundle_folder(ADDRESS)).artifact_path.read_bytes() == LARGE


def test_an_interrupted_download_goes_on_with_the_next_call(hub: HubServer, tmp_path: Path) -> None:
    hub.faults += [Fault("GET /objects", cut=30_000), Fault("GET /objects", times=99, status=502)]
    error = refused()
    assert error.code == "E875" and "model.pte" in error.where and "stays" in error.fix
    assert (arriving(tmp_path) / "model.pte").stat().st_size == 30_000
    hub.faults.clear()
    hub.asked.clear()
    assert open_bundle(bundle_folder(ADDRESS)).files_checked
    assert [asked.range for asked in hub.requests("GET /objects")] == ["bytes=30000-"]
    assert not hub.requests("tokenizer.json") or not hub.requests("generation_config")


@pytest.mark.long
def test_a_killed_process_leaves_what_the_next_one_goes_on_with(hub: HubServer, tmp_path: Path) -> None:
    hub.faults.append(Fault("GET /objects", cut=90_000, hold_s=60.0))
    code = f"from edgec.bundle.hub.located import bundle_folder; bundle_folder({ADDRESS!r})"
    environment = {**child_environment(), "HF_ENDPOINT": hub.endpoint}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and not any(_kept(tmp_path)):
            sleep(0.05)
        process.kill()
    kept = sum(_kept(tmp_path))
    assert 0 < kept <= 90_000
    bundle_folder(ADDRESS)
    assert [asked.range for asked in hub.requests("GET /objects")] == [None, f"bytes={kept}-"]


def _kept(tmp_path: Path) -> list[int]:
    return [path.stat().st_size for path in (tmp_path / "cache" / "hub").glob("*/arriving/model.pte")]


@pytest.mark.long
def test_the_command_takes_an_address_on_the_hub_that_hf_endpoint_names(hub: HubServer, tmp_path: Path) -> None:
    environment = {**child_environment(), "HF_ENDPOINT": hub.endpoint}
    words = [sys.executable, "-m", "edgec", "inspect", ADDRESS, "--json"]
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout == (tmp_path / "tiny.edgec" / "manifest.json").read_text()
    assert f"{ADDRESS} is commit" in ran.stderr


def test_what_was_damaged_between_two_calls_is_fetched_again(hub: HubServer, tmp_path: Path) -> None:
    hub.faults += [Fault("GET /objects", cut=30_000), Fault("GET /objects", times=99, status=502)]
    refused()
    (arriving(tmp_path) / "model.pte").write_bytes(b"\0" * 30_000)
    hub.faults.clear()
    assert open_bundle(bundle_folder(ADDRESS)).files_checked


def test_what_somebody_else_laid_out_is_not_written_through(hub: HubServer, tmp_path: Path) -> None:
    hub.faults.append(Fault("GET /objects", times=99, status=502))
    refused()
    target = tmp_path / "precious"
    target.write_text("precious")
    (arriving(tmp_path) / "model.pte").unlink()
    (arriving(tmp_path) / "model.pte").symlink_to(target)
    hub.faults.clear()
    bundle_folder(ADDRESS)
    assert target.read_text() == "precious"


ENDED = {"X-Error-Message": "Invalid credentials in Authorization header"}
FAILURES = {
    "no such repository": ("hub:max/absent", None, "E101", "spelling"),
    "no such revision": (f"{ADDRESS}@v9", None, "E101", "@REVISION"),
    "gated": (ADDRESS, Fault("resolve", 9, 403, headers={"X-Error-Code": "GatedRepo"}), "E102", "hf auth login"),
    "a login that has ended": (ADDRESS, Fault("revision/main", 9, 401, headers=ENDED), "E101", "HF_TOKEN"),
    "a login that ends on the way": (ADDRESS, Fault("GET /objects", 9, status=403), "E101", "HF_TOKEN"),
    "server error": (ADDRESS, Fault("revision/main", 9, status=500), "E103", "local folder"),
    "too many requests": (ADDRESS, Fault("revision/main", 9, status=429), "E875", "minutes"),
    "too many on the way": (ADDRESS, Fault("GET /objects", 99, status=429), "E875", "minutes"),
    "not JSON": (ADDRESS, Fault("revision/main", 9, body=b"<html>login</html>"), "E875", "proxy"),
    "no commit": (ADDRESS, Fault("revision/main", 9, body=b'{"id": "max/tiny", "sha": "../../x"}'), "E875", "proxy"),
    "another kind of JSON": (ADDRESS, Fault("revision/main", 9, body=b"[1]"), "E875", "proxy"),
    "files that are none": (
        ADDRESS,
        Fault("revision/main", 9, body=json.dumps({"id": "x/y", "sha": "0" * 40, "siblings": [1]}).encode()),
        "E875",
        "proxy",
    ),
    "a page in place of the manifest": (ADDRESS, Fault("manifest.json", 9, body=b"<html></html>"), "E131", "copy"),
    "a longer file": (ADDRESS, Fault("GET /objects", 9, body=LARGE + b"x"), "E876", "publish"),
    "a shorter file": (ADDRESS, Fault("GET /objects", 9, body=LARGE[:-1]), "E876", "publish"),
    "another file": (ADDRESS, Fault("GET /objects", 9, body=b"x" + LARGE[1:]), "E876", "publish"),
    "a file that went": (
        ADDRESS,
        Fault("tokenizer.json", 9, 404, headers={"X-Error-Code": "EntryNotFound"}),
        "E876",
        "publish",
    ),
}


@pytest.mark.parametrize("case", FAILURES.values(), ids=FAILURES)
def test_failures(case: tuple[str, Fault | None, str, str], hub: HubServer, tmp_path: Path) -> None:
    address, fault, code, advice = case
    hub.faults += [fault] if fault else []
    error = refused(address)
    assert (error.code, advice in error.fix) == (code, True), str(error)
    assert not list((tmp_path / "cache" / "hub").glob("*/*.edgec"))
    for each in hub.faults:
        each.times = 0
    if address == ADDRESS:
        assert open_bundle(bundle_folder(ADDRESS)).files_checked


def test_a_file_without_an_end_is_not_read_to_it(hub: HubServer, tmp_path: Path) -> None:
    hub.faults.append(Fault("GET /objects", 9, body=LARGE * 50))
    assert "longer than" in refused().why
    assert not (arriving(tmp_path) / "model.pte").exists()


def test_a_private_repository_needs_the_token_which_the_storage_does_not_get(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.repos["max/tiny"].private = True
    error = refused()
    assert error.code == "E101" and "hf auth login" in error.fix
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    bundle_folder(ADDRESS)
    assert all(asked.authorised == (asked.origin == "hub") for asked in hub.asked[1:])


def test_a_token_and_a_signed_address_are_never_told(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.faults.append(Fault("GET /objects", 99, status=502))
    error = str(refused())
    assert TOKEN not in error and "X-Signature" not in error


def test_a_repository_without_a_bundle(hub: HubServer) -> None:
    hub.repos["max/plain"] = Repo()
    hub.repos["max/plain"].commit({"config.json": b"{}", "a\x1b[31m.bin": b"x"})
    error = refused("hub:max/plain")
    assert error.code == "E874" and "'config.json'" in error.why and "edgec export max/plain" in error.fix
    assert "\x1b" not in str(error)


def test_names_in_the_hubs_list_are_never_paths(hub: HubServer, tmp_path: Path) -> None:
    hub.listed = ["../../escaped", "/etc/escaped", "tokenizer/../../escaped"]
    assert files_of(bundle_folder(ADDRESS)) == files_of(tmp_path / "tiny.edgec")
    assert not list(tmp_path.rglob("*escaped*")) and not hub.requests("escaped")


def hostile(server: HubServer, bundle: Path, *files: FileInfo) -> None:
    """Publish the bundle with a manifest that lists these files as well, and all of them in the hub's list."""
    manifest = read_manifest(bundle)
    made = seal(manifest.model_copy(update={"files": [*manifest.files, *files]}))
    (bundle / "manifest.json").write_bytes(canonical_json(made))
    publish(server, bundle)
    server.listed = [file.path for file in files]


SHA = "0" * 64
HOSTILE = {
    "a path that leaves": ([FileInfo(path="../escaped", bytes=1, sha256=SHA)], "E137"),
    "an absolute path": ([FileInfo(path="/tmp/escaped", bytes=1, sha256=SHA)], "E137"),
    "the manifest itself": ([FileInfo(path="manifest.json", bytes=1, sha256=SHA)], "E137"),
    "a file that is a folder": ([FileInfo(path="tokenizer", bytes=1, sha256=SHA)], "E876"),
    "a file in a signature": ([FileInfo(path="model.sig/x", bytes=1, sha256=SHA)], "E876"),
    "too many bytes": ([FileInfo(path="huge", bytes=1 << 50, sha256=SHA)], "E876"),
    "too many files": ([FileInfo(path=f"f{i}", bytes=0, sha256=SHA) for i in range(10_001)], "E876"),
}


@pytest.mark.parametrize("case", HOSTILE.values(), ids=HOSTILE)
def test_hostile_manifests(case: tuple[list[FileInfo], str], hub: HubServer, tmp_path: Path) -> None:
    files, code = case
    hostile(hub, tmp_path / "tiny.edgec", *files)
    assert refused().code == code
    assert not hub.requests("model.pte") and not list(tmp_path.rglob("*escaped*"))


def test_a_manifest_that_lists_what_is_not_there(hub: HubServer, tmp_path: Path) -> None:
    hostile(hub, tmp_path / "tiny.edgec", FileInfo(path="gone", bytes=1, sha256=SHA))
    hub.listed = None
    assert refused().code == "E876" and not hub.requests("model.pte")


def test_another_schema_version_keeps_its_advice(hub: HubServer, tmp_path: Path) -> None:
    manifest = json.loads((tmp_path / "tiny.edgec" / "manifest.json").read_text()) | {"schema_version": 99}
    (tmp_path / "tiny.edgec" / "manifest.json").write_text(json.dumps(manifest))
    publish(hub, tmp_path / "tiny.edgec")
    error = refused()
    assert (error.code, error.where) == ("E133", f"{ADDRESS} (manifest.json)") and "a newer edgec" in error.fix


def test_a_signature_comes_with_the_bundle(hub: HubServer, tmp_path: Path) -> None:
    publish(hub, tmp_path / "tiny.edgec", **{"model.sig": b"{}"})
    assert (bundle_folder(ADDRESS) / "model.sig").read_bytes() == b"{}"


def test_a_damaged_copy_is_fetched_again(hub: HubServer) -> None:
    folder = bundle_folder(ADDRESS)
    (folder / "model.pte").unlink()
    assert open_bundle(bundle_folder(ADDRESS)).files_checked
    shutil.rmtree(folder)
    assert open_bundle(bundle_folder(ADDRESS)).files_checked


def test_a_copy_for_another_version_of_edgec_is_kept(hub: HubServer) -> None:
    folder = bundle_folder(ADDRESS)
    manifest = json.loads((folder / "manifest.json").read_text()) | {"schema_version": 99}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert refused().code == "E133" and folder.is_dir()


def test_a_disk_that_is_too_small_or_fills_up(hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from edgec.bundle.hub import download

    with monkeypatch.context() as patch:
        patch.setattr(located, "free_bytes", lambda _: 10)
        assert refused().code == "E122" and not hub.requests("model.pte")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(download, "_stream", full)
        assert refused().code == "E122"


def test_a_cache_that_cannot_be_written(hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EDGEC_CACHE_DIR", str(tmp_path / "file"))
    assert refused().code == "E121"


def test_a_second_process_waits(hub: HubServer, capsys: pytest.CaptureFixture[str]) -> None:
    from threading import Thread

    from edgec.bundle.hub.address import HubAddress
    from edgec.bundle.hub.copies import HubCopy

    commit = hub.repos["max/tiny"].branches["main"]
    found: list[Path] = []
    with HubCopy(HubAddress("max/tiny"), commit).held():
        other = Thread(target=lambda: found.append(bundle_folder(ADDRESS)))
        other.start()
        other.join(0.5)
        assert not found
    other.join(30)
    assert found and "waiting for it" in capsys.readouterr().err
