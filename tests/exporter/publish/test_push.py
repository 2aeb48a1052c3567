"""Pushes to a stand-in of the hub: what arrives, what is refused, and what a second call need not send again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgec.bundle.folder import open_bundle, write_bundle
from edgec.bundle.hub.address import HubAddress
from edgec.bundle.hub.located import bundle_folder
from edgec.bundle.manifest import ModelInfo
from edgec.cli.app import run_cli
from edgec.errors import InputError
from edgec.exporter.publish.card import MARK
from edgec.exporter.publish.push import PushPlan, plan_push, push
from tests.bundle.bundle_samples import FILES, sample_manifest
from tests.hub_server import TOKEN, Fault, HubServer, Repo, files_of, hub_server, use_hub

LARGE = bytes(range(251)) * 400
TINY = HubAddress("max/tiny")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """An empty hub, and a login that may write to max."""
    monkeypatch.setenv("EDGEC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    with hub_server() as server:
        use_hub(server, monkeypatch, TOKEN)
        yield server


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return made(tmp_path, "tiny")


def made(folder: Path, name: str, **fields: object) -> Path:
    path = folder / f"{name}.edgec"
    files = FILES | {"model.pte": LARGE, "draft.bin": LARGE[::-1], "empty.txt": b""}
    write_bundle(path, sample_manifest(name=name, **fields), files)
    return path


def pushed(bundle: Path, address: HubAddress = TINY, **options: object) -> str:
    return push(plan_push(bundle, address, **options))  # type: ignore[arg-type]


def refused(bundle: Path, address: HubAddress = TINY, **options: object) -> InputError:
    with pytest.raises(InputError) as caught:
        pushed(bundle, address, **options)
    error = caught.value
    assert all((error.what, error.where, error.why, error.fix)) and TOKEN not in str(error)
    return error


def there(hub: HubServer, branch: str = "main") -> dict[str, bytes]:
    repo = hub.repos["max/tiny"]
    return repo.commits[repo.branches[branch]]


def test_a_bundle_arrives_as_it_lies_with_a_card_and_comes_back_whole(hub: HubServer, bundle: Path) -> None:
    commit = pushed(bundle)
    files = dict(there(hub))
    assert MARK.encode() in files.pop("README.md") and files.pop(".gitattributes")
    assert files == files_of(bundle) and commit == hub.repos["max/tiny"].branches["main"]
    assert hub.repos["max/tiny"].summaries == ["tiny: float, host"] and not hub.repos["max/tiny"].private
    assert files_of(bundle_folder("hub:max/tiny")) == files_of(bundle)


def test_a_plan_changes_nothing(hub: HubServer, bundle: Path) -> None:
    plan = plan_push(bundle, TINY, private=True)
    assert isinstance(plan, PushPlan) and plan.there is None and plan.private
    assert not hub.repos and not [asked for asked in hub.asked if not asked.what.startswith("GET")]


def test_a_private_repository_is_made_so_and_a_public_one_is_not_taken_for_one(hub: HubServer, bundle: Path) -> None:
    pushed(bundle, private=True)
    assert hub.repos["max/tiny"].private
    assert pushed(bundle, private=True)
    hub.repos["max/tiny"].private = False
    error = refused(bundle, private=True)
    assert error.code == "E877" and "public" in error.what


def test_a_newer_bundle_replaces_the_older_one_and_its_files(hub: HubServer, bundle: Path, tmp_path: Path) -> None:
    (bundle / "model.sig").write_bytes(b"{}")
    pushed(bundle)
    assert "model.sig" in there(hub)
    write_bundle(tmp_path / "new.edgec", sample_manifest(name="new"), FILES)
    plan = plan_push(tmp_path / "new.edgec", TINY)
    assert plan.stale == ("draft.bin", "empty.txt", "model.sig")
    push(plan)
    assert set(there(hub)) == {".gitattributes", "README.md", *files_of(tmp_path / "new.edgec")}
    assert open_bundle(bundle_folder("hub:max/tiny")).manifest.name == "new"


OTHER = {
    "another model": {"model": ModelInfo(name="other", source="x", family="llama", parameters=1)},
    "another family": {"model": ModelInfo(name="stories260K", source="x", family="gemma", parameters=1)},
    "another target": {"target": "android-cpu"},
}


@pytest.mark.parametrize("fields", OTHER.values(), ids=OTHER)
def test_another_bundle_is_replaced_by_force_alone(
    fields: dict[str, object], hub: HubServer, bundle: Path, tmp_path: Path
) -> None:
    pushed(bundle)
    before, other = there(hub), made(tmp_path, "other", **fields)
    error = refused(other)
    assert error.code == "E874" and "--force" in error.fix and "--revision" in error.fix
    assert there(hub) == before
    pushed(other, force=True)
    assert there(hub)["manifest.json"] == (other / "manifest.json").read_bytes()


def test_files_that_are_not_a_bundles_are_kept_also_by_force(hub: HubServer, bundle: Path) -> None:
    hub.repos["max/tiny"] = Repo()
    hub.repos["max/tiny"].commit({"model.safetensors": b"weights", "README.md": b"# my model\n"})
    error = refused(bundle)
    assert error.code == "E874" and "'model.safetensors'" in error.why
    pushed(bundle, force=True)
    assert there(hub)["model.safetensors"] == b"weights" and MARK.encode() in there(hub)["README.md"]


def test_a_manifest_that_cannot_be_read_is_replaced_by_force_alone(hub: HubServer, bundle: Path) -> None:
    hub.repos["max/tiny"] = Repo()
    hub.repos["max/tiny"].commit({"manifest.json": b"{}"})
    assert "cannot be read" in refused(bundle).why
    assert pushed(bundle, force=True)


def test_an_empty_repository_is_taken_and_a_card_of_ones_own_stays(hub: HubServer, bundle: Path) -> None:
    hub.repos["max/tiny"] = Repo()
    hub.repos["max/tiny"].commit(
        {"README.md": b"---\nlicense: mit\n---\n# mine\n", ".gitattributes": b"", "LICENSE": b""}
    )
    pushed(bundle)
    assert there(hub)["README.md"].endswith(b"# mine\n")
    pushed(bundle, force=True)
    assert MARK.encode() in there(hub)["README.md"]


@pytest.mark.long
def test_a_branch_is_made_and_holds_a_bundle_of_its_own(hub: HubServer, bundle: Path, tmp_path: Path) -> None:
    pushed(bundle)
    phone = made(tmp_path, "phone", target="android-cpu")
    before = there(hub)
    pushed(phone, replace(TINY, revision="android"))
    assert there(hub) == before
    assert open_bundle(bundle_folder("hub:max/tiny@android")).manifest.target == "android-cpu"
    assert pushed(phone, HubAddress("max/fresh", "android")) in hub.repos["max/fresh"].commits


def test_what_was_sent_is_not_sent_again(hub: HubServer, bundle: Path) -> None:
    shas = {file.path: file.sha256 for file in open_bundle(bundle).manifest.files}
    # The library repeats what a busy storage refused, then gives up.
    hub.faults.append(Fault(f"PUT /objects/{shas['draft.bin']}", 99, status=503))
    error = refused(bundle)
    assert error.code == "E875" and "not sent twice" in error.fix
    assert set(there(hub)) == {".gitattributes"} and shas["model.pte"] in hub.objects
    hub.faults.clear()
    hub.asked.clear()
    pushed(bundle)
    assert [asked.what for asked in hub.requests("PUT")] == [f"PUT /objects/{shas['draft.bin']}"]
    hub.asked.clear()
    pushed(bundle)
    assert not hub.requests("PUT")


FAILURES = {
    "no such owner": (HubAddress("stranger/tiny"), None, "E877", "hf auth login"),
    "the token may not write": (TINY, Fault("preupload", 9, status=403), "E877", "hf auth login"),
    "too many requests": (TINY, Fault("POST /api/models/max/tiny/commit", 9, status=429), "E875", "minutes"),
    "the commit fails": (TINY, Fault("POST /api/models/max/tiny/commit", 9, status=500), "E875", "not sent twice"),
    "somebody was faster": (TINY, Fault("POST /api/models/max/tiny/commit", 9, status=412), "E875", "Call again"),
    "garbage": (TINY, Fault("preupload", 9, body=b"<html>"), "E875", "Call again"),
    "garbage for a batch": (TINY, Fault("objects/batch", 9, body=b"{}"), "E875", "Call again"),
    "the state cannot be asked": (TINY, Fault("GET /api/models", 9, status=500), "E103", "Go online"),
    "a connection that ends": (TINY, Fault("POST /api/models/max/tiny/commit", 9, body=b"{}", cut=1), "E875", "again"),
}


@pytest.mark.parametrize("case", FAILURES.values(), ids=FAILURES)
def test_failures(case: tuple[HubAddress, Fault | None, str, str], hub: HubServer, bundle: Path) -> None:
    address, fault, code, advice = case
    hub.faults += [fault] if fault else []
    error = refused(bundle, address)
    assert (error.code, advice in error.fix) == (code, True), str(error)


def test_without_a_login_nothing_is_pushed(hub: HubServer, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_TOKEN")
    error = refused(bundle)
    assert error.code == "E877" and "no login" in error.why
    assert not hub.repos


def test_a_repository_that_this_login_does_not_see(
    hub: HubServer, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.repos["max/tiny"] = Repo(private=True)
    monkeypatch.setenv("HF_TOKEN", "hf_of_somebody_else")
    assert refused(bundle).code == "E877"


def test_a_header_that_the_hub_refuses_is_told_before_anything_is_sent(hub: HubServer, bundle: Path) -> None:
    hub.readme_errors.append('"license" must be one of ...')
    error = refused(bundle)
    assert error.code == "E875" and not hub.requests("PUT|/commit/")


def test_a_gitignore_that_leaves_a_file_out_is_noticed(hub: HubServer, tmp_path: Path) -> None:
    path = tmp_path / "x.edgec"
    write_bundle(path, sample_manifest(), FILES | {"a.ignored": b"x"})
    error = refused(path)
    assert error.code == "E877" and "'a.ignored'" in error.why and ".gitignore" in error.fix


@pytest.mark.parametrize("name", ["README.md", ".gitattributes"])
def test_a_file_that_a_repository_keeps_for_itself(name: str, hub: HubServer, tmp_path: Path) -> None:
    path = tmp_path / "x.edgec"
    write_bundle(path, sample_manifest(), FILES | {name: b"x"})
    assert refused(path).code == "E877"


def test_a_damaged_bundle_is_never_pushed(hub: HubServer, bundle: Path) -> None:
    (bundle / "model.pte").write_bytes(b"x" + LARGE[1:])
    assert refused(bundle).code == "E135" and not hub.asked


def test_a_commit_is_not_a_branch(hub: HubServer, bundle: Path) -> None:
    assert refused(bundle, replace(TINY, revision="0" * 40)).code == "E873"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run_cli(list(words))
    told = capsys.readouterr()
    assert TOKEN not in told.out + told.err
    return code, told.out, told.err


def test_the_command_lists_and_pushes_only_when_told(
    hub: HubServer, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "push", str(bundle), "max/tiny", "--private")
    assert code == 0 and "nothing was pushed" in out and "private" in out and not hub.repos
    assert f"{len(LARGE):,}  model.pte" in out
    code, out, _ = run(capsys, "push", str(bundle), "max/tiny", "--yes", "--message", "first")
    assert code == 0 and hub.repos["max/tiny"].branches["main"] in out and hub.repos["max/tiny"].summaries == ["first"]
    code, out, _ = run(capsys, "push", str(bundle), "hub:max/tiny@main", "--json")
    facts = json.loads(out)
    assert (facts["pushed"], facts["new"], facts["card"]) == (False, False, True)
    assert {file["path"] for file in facts["files"]} == set(files_of(bundle))


def test_the_command_shows_the_card(hub: HubServer, bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "push", str(bundle), "max/tiny", "--card", "--base-model", "max/tiny-float", "--yes")
    assert code == 0 and out.startswith("---\n") and "base_model: max/tiny-float" in out and not hub.repos


@pytest.mark.parametrize(
    "words", [("tiny",), ("max/tiny@a", "--revision", "b"), ("max/tiny", "--revision", "../x"), ("max/tiny@",)]
)
def test_the_command_refuses_what_is_not_an_address(
    words: tuple[str, ...], hub: HubServer, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "push", str(bundle), *words)
    assert code == 1 and "E873" in err and not hub.asked


def test_names_from_manifests_do_nothing_to_a_terminal(
    hub: HubServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nasty = tmp_path / "x.edgec"
    write_bundle(nasty, sample_manifest(name="a\x1b[2Jb\nc"), FILES)
    pushed(nasty)
    code, out, _ = run(capsys, "push", str(nasty), "max/tiny")
    assert code == 0 and "\x1b" not in out and out.count("a [2Jb c") == 2


def test_the_folder_of_the_model_is_told_before_it_is_public(
    hub: HubServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ModelInfo(name="m", source="/home/max/m", family="llama", parameters=1)
    code, out, _ = run(capsys, "push", str(made(tmp_path, "x", model=model)), "max/tiny")
    assert code == 0 and "will be public: /home/max/m" in out
