"""``edgec sign``, and what the other commands say of a signature."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import edgec
from edgec.bundle.folder import SIGNATURE
from edgec.bundle.signature import check_signature
from edgec.bundle.signing_keys import PASSWORD_VARIABLE, read_public_key
from edgec.cli.app import run_cli
from edgec.runtime_py.verify.report import BundleCheck
from tests.bundle.bundle_samples import FILES, write_sample
from tests.bundle.signatures import private_pem, write_keys


def called(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    code = run_cli([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a bundle and keys; artifacts are not executed here."""
    monkeypatch.setattr("edgec.runtime_py.verify.verify._REPLAYS", {"host": lambda *arguments: []})
    monkeypatch.delenv(PASSWORD_VARIABLE, raising=False)
    write_sample(tmp_path).rename(tmp_path / "a.edgec")
    for name in ("own", "foreign", "RSA"):
        write_keys(tmp_path, name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def signature_row(capsys: pytest.CaptureFixture[str], *options: str) -> BundleCheck:
    code, out, _ = called(capsys, "verify", "a.edgec", *options, "--json")
    (row,) = (check for check in json.loads(out)["checks"] if check["name"] == "signature")
    assert code == 0
    return BundleCheck.from_json(row)


def test_a_signed_bundle_is_verified_by_its_key(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = called(capsys, "sign", "a.edgec", "--key", "own-key.pem")
    assert (code, err) == (0, "") and f"signed {len(FILES) + 1} files" in out and "a.edgec/model.sig" in out
    row = signature_row(capsys, "--public-key", "own-public.pem")
    fingerprint = read_public_key(Path("own-public.pem")).fingerprint
    assert row.status == "passed" and fingerprint[:16] in row.detail and fingerprint in out
    code, out, _ = called(capsys, "verify", "a.edgec", "--public-key", "own-public.pem")
    assert code == 0 and "as signed by the key" in out and "verified" in out


def test_without_a_key_verify_says_what_it_did_not_check(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = signature_row(capsys)
    assert (row.status, row.detail) == ("unavailable", "the bundle is not signed")
    called(capsys, "sign", "a.edgec", "--key", "own-key.pem")
    row = signature_row(capsys)
    assert row.status == "unavailable" and "NOT CHECKED" in row.detail and "--public-key" in row.detail
    (place / "a.edgec" / SIGNATURE).write_text("nonsense")
    assert "NOT CHECKED" in signature_row(capsys).detail


def test_json_names_the_key(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "sign", "a.edgec", "--key", "own-key.pem", "--json")
    fingerprint = read_public_key(Path("own-public.pem")).fingerprint
    assert code == 0
    assert json.loads(out) == {
        "bundle": "a.edgec",
        "signature": "model.sig",
        "files": len(FILES) + 1,
        "key_sha256": fingerprint,
    }


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("verify", "a.edgec", "--public-key", "own-public.pem"), "E601"),
        (("verify", "none.edgec", "--public-key", "own-public.pem"), "E130"),
        (("verify", "a.edgec", "--public-key", "own-key.pem"), "E605"),
        (("verify", "a.edgec", "--public-key", "RSA-public.pem"), "E605"),
        (("sign", "a.edgec", "--key", "own-public.pem"), "E605"),
        (("sign", "a.edgec", "--key", "RSA-key.pem"), "E605"),
        (("sign", "a.edgec", "--key", "none.pem"), "E605"),
        (("sign", "none.edgec", "--key", "own-key.pem"), "E130"),
        (("sign", "a.edgec"), "E100"),
    ],
)
def test_refusals_exit_with_1(
    place: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: str
) -> None:
    exit_code, out, err = called(capsys, *words)
    assert (exit_code, out) == (1, "") and f"[{code}]" in err and "fix:" in err
    assert not (place / "a.edgec" / SIGNATURE).exists()


def test_tampering_and_a_foreign_key_exit_with_1(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    called(capsys, "sign", "a.edgec", "--key", "own-key.pem")
    code, out, _ = called(capsys, "verify", "a.edgec", "--public-key", "foreign-public.pem", "--json")
    assert code == 1 and json.loads(out)["error"]["code"] == "E603"
    (place / "a.edgec" / "model.pte").write_bytes(b"another")
    code, out, _ = called(capsys, "verify", "a.edgec", "--public-key", "own-public.pem", "--json")
    error = json.loads(out)["error"]
    assert (code, error["code"], error["exit_code"]) == (1, "E604", 1) and "model.pte" in error["why"]


def test_force_replaces_a_signature(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    called(capsys, "sign", "a.edgec", "--key", "own-key.pem")
    code, _, err = called(capsys, "sign", "a.edgec", "--key", "foreign-key.pem")
    assert code == 1 and "[E120]" in err and "--force" in err
    assert called(capsys, "sign", "a.edgec", "--key", "foreign-key.pem", "--force")[0] == 0
    assert check_signature(place / "a.edgec", read_public_key(place / "foreign-public.pem")).files


def test_the_password_comes_from_the_environment(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "own-key.pem").write_bytes(private_pem("own", "secret"))
    code, _, err = called(capsys, "sign", "a.edgec", "--key", "own-key.pem")
    assert code == 1 and "[E606]" in err and PASSWORD_VARIABLE in err
    monkeypatch.setenv(PASSWORD_VARIABLE, "secret")
    assert called(capsys, "sign", "a.edgec", "--key", "own-key.pem")[0] == 0


def test_inspect_and_ls_show_a_signature_and_that_they_did_not_check_it(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown() -> tuple[str, bool, str]:
        (row,) = json.loads(called(capsys, "ls", ".", "--json")[1])["bundles"]
        lines = called(capsys, "inspect", "a.edgec")[1].splitlines()
        line = next(line for line in lines if line.startswith("signature"))
        return line, row["signed"], called(capsys, "ls", ".")[1]

    line, signed, table = shown()
    assert "none" in line and not signed and "none" in table
    manifest = called(capsys, "inspect", "a.edgec", "--json")[1]
    called(capsys, "sign", "a.edgec", "--key", "own-key.pem")
    line, signed, table = shown()
    assert "not checked" in line and signed and "not checked" in table
    assert called(capsys, "inspect", "a.edgec", "--json")[1] == manifest, "the output is the manifest itself"


def test_run_and_serve_refuse_a_bundle_that_the_key_did_not_sign(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["run", "a.edgec", "-p", "x"], ["serve", "a.edgec", "--port", "0"]):
        code, _, err = called(capsys, *command, "--public-key", "own-public.pem")
        assert code == 1 and "[E601]" in err, "it is not signed"
    called(capsys, "sign", "a.edgec", "--key", "own-key.pem")
    for command in (["run", "a.edgec", "-p", "x"], ["serve", "a.edgec", "--port", "0"]):
        code, _, err = called(capsys, *command, "--public-key", "foreign-public.pem")
        assert code == 1 and "[E603]" in err, "another key signed it"


def test_a_signed_bundle_is_loaded_by_its_key(tiny_bundle: Path, tmp_path: Path) -> None:
    bundle = shutil.copytree(tiny_bundle, tmp_path / "a.edgec")
    write_keys(tmp_path, "own")
    assert run_cli(["sign", str(bundle), "--key", str(tmp_path / "own-key.pem")]) == 0
    key = tmp_path / "own-public.pem"
    said = edgec.load(bundle, public_key=key).generate("Once", max_new_tokens=3).tokens
    assert said == edgec.load(tiny_bundle).generate("Once", max_new_tokens=3).tokens
    (bundle / "added.txt").write_text("x")
    with pytest.raises(edgec.InputError) as error:
        edgec.load(bundle, public_key=key)
    assert error.value.code == "E604"


@pytest.mark.long
def test_using_a_bundle_does_not_break_its_signature(tiny_bundle: Path, tmp_path: Path) -> None:
    """Weights that are packed for another processor, and whatever else a load keeps, lie in the cache."""
    bundle = Path(shutil.copytree(tiny_bundle, tmp_path / "a.edgec"))
    private, public = write_keys(tmp_path, "own")
    assert run_cli(["sign", str(bundle), "--key", str(private)]) == 0
    edgec.load(bundle).generate("Once", max_new_tokens=2)
    assert run_cli(["verify", str(bundle), "--public-key", str(public)]) == 0
