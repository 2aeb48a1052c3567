"""What holds of every Swift package that has a part of edgec's engine beside Core ML."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from edgec.apps.embed.written_package import AppPackage
from edgec.engine.compile.build import SOURCES
from tests.apps.test_engine_project import text


def assert_c_target(
    package: AppPackage, part: str, sources: Sequence[str], functions: Sequence[str], callers: Sequence[str]
) -> Mapping[str, str]:
    """Assert that the C++ target has a part's sources, and its functions under names of the package's own.

    Args:
        package: the package.
        part: at the end of the target's name.
        sources: paths under ``engine``.
        functions: the names of the C interface.
        callers: the Swift files that call all of them together.

    Returns:
        The names of the interface -> those in this package.
    """
    target = f"{package.module}{part}"
    folder = f"Sources/{target}"
    carried = {path.removeprefix(f"{folder}/edgec/") for path in package.files if path.startswith(f"{folder}/edgec/")}
    assert carried == set(sources)
    header, manifest = text(package, f"{folder}/include/{target}.h"), text(package, "Package.swift")
    renamed = dict(re.findall(r"^#define (edgec_\w+) (\w+)$", header, re.MULTILINE))
    assert renamed == dict(re.findall(r'\.define\("(edgec_\w+)", to: "(\w+)"\)', manifest))
    assert set(renamed) == set(functions) and "executorch" not in manifest
    swift = (text(package, f"Sources/{package.module}/{name}.swift") for name in callers)
    assert set(re.findall(rf"{package.module}_\w+", "".join(swift))) == set(renamed.values())
    assert f'.target(name: "{target}")' in manifest and "cxxLanguageStandard: .cxx17" in manifest
    return renamed


def assert_included_alone(sources: Sequence[str]) -> None:
    """Assert that sources include nothing of ExecuTorch, and no file that an app does not have."""
    for name in sources:
        source = (SOURCES / name).read_text()
        assert "executorch/" not in source, name
        for included in re.findall(r'#include "([^"]+)"', source):
            beside = (SOURCES / name).parent / included
            found = next(
                path for path in (beside, SOURCES / included, SOURCES / "include" / included) if path.is_file()
            )
            assert found.resolve().relative_to(SOURCES.resolve()).as_posix() in sources, (name, included)
