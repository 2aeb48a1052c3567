"""edgec's wheel for this system in a new environment without a compiler: its engine, and no other, is what executes.

What edgec depends on comes from this environment by a path file; ExecuTorch, which the engine looks for beside edgec,
by a link.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from edgec.engine.compile.shipped import fitting_abis
from edgec.engine.compile.wheels import KINDS, make_wheels
from edgec.processor import processor_features

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
LOADED = """
import sys, edgec
model = edgec.load(sys.argv[1])
model.generate("Once upon a time", max_new_tokens=2)
print({line.split()[-1] for line in open("/proc/self/maps") if line.endswith("libedgec.so\\n")})
"""
Edgec = Callable[..., str]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Site-packages of a new environment that has the wheel, with the engine of the best class for this machine."""
    folder = tmp_path_factory.mktemp("installed")
    best = fitting_abis(sys.platform, platform.machine(), processor_features())[0]
    kind = next(kind for kind in KINDS if best in kind.abis)
    (wheel,) = make_wheels([replace(kind, abis=(best,))], folder / "wheels")
    venv.create(folder / "venv", with_pip=False)
    (packages,) = (folder / "venv" / "lib").glob("python3.*/site-packages")
    line = [sys.executable, "-m", "pip", "--python", str(folder / "venv" / "bin" / "python"), "install"]
    # Where PYTHONPATH leads to a checkout, pip finds edgec there and installs nothing.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([*line, "--quiet", "--no-deps", "--no-compile", str(wheel)], check=True, env=environment)
    ours = Path(sysconfig.get_path("purelib"))
    for linked in (ours / "executorch", *ours.glob("executorch-*.dist-info")):
        (packages / linked.name).symlink_to(linked)
    (packages / "dependencies.pth").write_text(f"{ours}\n")
    return packages


@pytest.fixture(scope="module")
def edgec(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Edgec:
    """Call a program of the environment, in another folder, with nothing else on the path and an empty cache."""
    folder, programs = tmp_path_factory.mktemp("elsewhere"), site.parents[2] / "bin"
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "CXX")}
    environment = {**kept, "PATH": str(programs), "EDGEC_CACHE_DIR": str(folder / "cache")}

    def call(*words: str, program: str = "edgec") -> str:
        line = [str(programs / program), *words]
        done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert not list((folder / "cache").glob("runner/*/libedgec.so")), "nothing was compiled"
        return done.stdout

    return call


def test_its_engine_executes_from_export_to_verify(edgec: Edgec, site: Path) -> None:
    checks = {check["name"]: check for check in json.loads(edgec("doctor", "--json"))["checks"]}
    inside = site / "edgec" / "engine" / "built"
    assert str(inside) in checks["edgec engine"]["found"] and "engine in edgec's wheel" not in checks
    assert "iphone" in edgec("plan", "tiny-stories", "--target", "iphone").lower()
    edgec("export", "tiny-stories", "--target", "host", "--recipe", "4bit", "--out", "tiny.edgec")
    written = edgec("run", "tiny.edgec", "--raw", "-p", "Once upon a time", "--max-new-tokens", "24", "--json")
    assert len(json.loads(written)["tokens"]) == 24
    assert json.loads(edgec("verify", "tiny.edgec", "--json"))["passed"]
    assert edgec("-c", LOADED, "tiny.edgec", program="python").startswith(f"{{'{inside}/")
