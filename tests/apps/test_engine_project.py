"""The CMake project in an Android app: every source, a bundle's text that stays inside, the same API in Kotlin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edgec.apps.embed.gradle_modules import gradle_modules
from edgec.apps.embed.written_package import AppPackage, write_package
from edgec.bundle.manifest import Manifest, Runtime
from edgec.engine.compile.build import SOURCES
from edgec.errors import InputError
from tests.apps.android_bundles import CPU, GPU, ONNX, android_bundle
from tests.apps.project_files import facts_of, in_android

CPP = "model/src/main/cpp"
HEADER = b"12345678eh00\x20\0\0\0"
OPERATORS = ["aten::mul.out", "aten::sym_size.int", "edgec::rope.out", "executorch_prim::add.Scalar"]
OWN = CPU.model_copy(
    update={"runtime": Runtime(name="executorch", version="1.5.1", backends=["XnnpackBackend"], operators=OPERATORS)}
)


def runtime(*operators: str, version: str = "1.5.1") -> Runtime:
    """An ExecuTorch runtime with edgec's own operator and these."""
    names = ["edgec::rope.out", *operators]
    return Runtime(name="executorch", version=version, backends=["XnnpackBackend"], operators=names)


def text(package: AppPackage, path: str) -> str:
    """The content of a written file."""
    content = package.files[path]
    assert isinstance(content, bytes)
    return content.decode()


def values(package: AppPackage) -> str:
    """What the CMake project reads of the model."""
    return text(package, f"{CPP}/values.cmake")


def kotlin(package: AppPackage, name: str) -> str:
    """The source of the model's Kotlin file ``name``."""
    return text(package, next(path for path in package.files if path.endswith(f"/{name}.kt")))


@pytest.fixture
def package(tmp_path: Path) -> AppPackage:
    return gradle_modules(android_bundle(tmp_path / "bundle", OWN))


def test_the_project_compiles_every_source_of_the_engine_and_the_kernels(package: AppPackage) -> None:
    there = {
        path
        for name in ("core", "kernels", "include")
        for path in (SOURCES / name).rglob("*")
        if path.suffix in (".cpp", ".h")
    }
    wanted = {path.relative_to(SOURCES).as_posix() for path in there}
    carried = {path.removeprefix(f"{CPP}/edgec/") for path in package.files if path.startswith(f"{CPP}/edgec/")}
    assert carried == {*wanted, "CMakeLists.txt"} and len(wanted) > 50
    assert 'set(EDGEC_PARTS "")' in values(package)
    assert 'add_subdirectory("${EDGEC_ENGINE}" engine)' in text(package, f"{CPP}/CMakeLists.txt")
    included = set(re.findall(r'#include "([^"]+)"', text(package, f"{CPP}/edgec_jni.cpp")))
    for header in ("edgec_jni.h", "edgec_decoder_jni.h"):
        included |= set(re.findall(r'#include "([^"]+)"', text(package, f"{CPP}/{header}")))
    held = carried | {name.removeprefix("include/") for name in carried}
    assert included <= held | {"edgec_jni.h", "edgec_decoder_jni.h"}


def test_the_written_sources_are_those_of_the_runner(package: AppPackage, tmp_path: Path) -> None:
    write_package(package, tmp_path / "out")
    for name in ("CMakeLists.txt", "include/edgec/engine.h", "kernels/linear/dotprod.cpp"):
        assert (tmp_path / "out" / CPP / "edgec" / name).read_bytes() == (SOURCES / name).read_bytes()


def test_the_build_states_pages_version_and_operators(package: AppPackage) -> None:
    project = text(package, f"{CPP}/CMakeLists.txt")
    assert "-Wl,-z,max-page-size=16384" in project and "PRIVATE edgec_engine" in project
    assert "CMAKE_CXX_VISIBILITY_PRESET hidden" in project and "CMAKE_CXX_STANDARD 17" in project
    project = values(package)
    assert (
        'set(EDGEC_EXECUTORCH_VERSION "1.5.1")' in project
        and 'EDGEC_ENGINE "${CMAKE_CURRENT_LIST_DIR}/edgec"' in project
    )
    # ExecuTorch's core has the operators on sizes and numbers, and edgec's sources its own.
    assert re.findall(r"^  (\w+::\S+)$", project, re.MULTILINE) == ["aten::mul.out"]
    assert "set(EDGEC_XNNPACK OFF)" in project and "set(EDGEC_QUANTIZED_OPERATORS OFF)" in project
    gradle = text(package, "model/build.gradle.kts")
    assert "-DANDROID_STL=c++_static" in gradle and 'path = file("src/main/cpp/CMakeLists.txt")' in gradle
    properties = text(package, "gradle.properties")
    assert re.search(r"^edgecNdk=28\.[\d.]+$", properties, re.MULTILINE) and 'abiFilters += "arm64-v8a"' in gradle
    assert "\nedgecRuntime=\n" in properties and not [path for path in package.files if b"@@" in content(package, path)]


def content(package: AppPackage, path: str) -> bytes:
    """The bytes of a file that is written, not copied."""
    given = package.files[path]
    return given if isinstance(given, bytes) else b""


def test_kotlin_c_and_r8_name_the_same_functions(package: AppPackage) -> None:
    declared = set(re.findall(r"external fun (\w+)\(", kotlin(package, "NativeEngine")))
    defined = set(re.findall(r"EDGEC_JNI\(\w+, (\w+)\)\(", text(package, f"{CPP}/edgec_jni.cpp")))
    texts = {"openSchema", "beginText", "maskLogits", "takeToken", "closeText", "closeSchema"}
    assert declared == defined == {"open", "forward", "state", "reset", "useAdapter", "close"} | texts
    library = f"edgec_{package.module.rpartition('.')[2]}"
    assert f"set(EDGEC_PACKAGE {package.module})\n" in values(package) and f"set(EDGEC_LIBRARY {library})\n" in values(
        package
    )
    assert facts_of(package)["model"]["library"] == library
    assert f"\nedgecLibrary={library}\n" in text(package, "gradle.properties")
    rules = text(package, "model/consumer-rules.pro").splitlines()
    for name in ("NativeEngine", "EngineFailed"):
        assert f"-keep class {package.module}.{name} {{ *; }}" in rules


def interface(source: str) -> set[str]:
    """The public declarations of a Kotlin file, on one line each."""
    found = re.findall(r"^ {0,4}(?:suspend )?(?:fun|val|var|class|object|data class) [^\n{=]+", source, re.MULTILINE)
    return {" ".join(line.split()) for line in found}


@pytest.mark.long
def test_an_app_calls_the_same_functions_whatever_the_runtime(package: AppPackage, tmp_path: Path) -> None:
    others = [gradle_modules(android_bundle(tmp_path / f"{i}", each)) for i, each in enumerate((CPU, GPU, ONNX))]
    names = ("EdgecModel", "Sampling", "Schemas", "Tokenization", "EdgecException")
    for other in others:
        for name in names:
            assert interface(kotlin(package, name)) == interface(kotlin(other, name)), name
    assert any(line.startswith("fun generate(prompt: String") for line in interface(kotlin(package, "EdgecModel")))
    # What those files use of the runtime: how it is opened and closed, and how tokens become logits.
    for folder in ("engine", "executorch", "onnx"):
        own = in_android("ModelRuntime", folder)
        assert re.search(r"fun open\(.*context: Context, artifact: File\)", own) and "override fun close()" in own
    for folder in ("engine", "dynamicDecoder", "staticDecoder"):
        own = in_android("ModelDecoder", folder)
        assert "class ModelDecoder(private val runtime: ModelRuntime)" in own
        assert "fun logits(tokens: List<Int>, start: Int): FloatArray" in own


@pytest.mark.parametrize(
    "named",
    [
        runtime("other::thing.out"),
        runtime("aten::mul.out)\nexecute_process(COMMAND touch /tmp/out"),
        runtime('aten::mul.out" "x'),
        runtime("aten"),
        runtime(version="1.5.1; rm"),
        runtime(version="main"),
        runtime(version='1.0"'),
    ],
)
def test_what_could_become_another_build_is_refused(named: Runtime, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        gradle_modules(android_bundle(tmp_path, CPU, runtime=named))
    assert caught.value.code == "E464"


def test_a_bundles_name_becomes_plain_letters(tmp_path: Path) -> None:
    odd = android_bundle(tmp_path, OWN, name='"; $(touch x) ${y} \\ \u2028 @@package@@')
    project = values(gradle_modules(odd))
    assert re.search(r"^set\(EDGEC_LIBRARY edgec_[a-z0-9]+\)$", project, re.MULTILINE)
    assert "touch" not in project.replace("touchxypackage", "")


def with_artifact(folder: Path, manifest: Manifest, artifact: bytes) -> AppPackage:
    """The modules of a bundle whose artifact has these bytes."""
    bundle = android_bundle(folder, manifest)
    (bundle.path / manifest.artifact).write_bytes(artifact)
    return gradle_modules(bundle)


@pytest.mark.long
def test_delegates_alone_ask_for_the_engine_and_xnnpack_is_linked_where_it_is_named(tmp_path: Path) -> None:
    plain = with_artifact(tmp_path / "plain", CPU, b"XnnpackBackend")
    assert f"{CPP}/CMakeLists.txt" not in plain.files
    linear = with_artifact(tmp_path / "linear", CPU, b"EdgecLinear")
    assert "set(EDGEC_XNNPACK OFF)" in values(linear)
    both = with_artifact(tmp_path / "both", CPU, b"EdgecLinear XnnpackBackend")
    assert "set(EDGEC_XNNPACK ON)" in values(both)
    # XNNPACK packs a second copy of the weights; edgec's kernels read them where they lie.
    assert linear.needed_bytes < both.needed_bytes
