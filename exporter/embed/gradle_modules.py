"""An Android bundle as Gradle modules: ``model`` (wrapper and bundle), ``bench``, an AI pack where needed."""

from __future__ import annotations

import json

from edgec import __version__
from edgec.errors import InputError
from edgec.exporter.bundle.folder import MANIFEST, Bundle
from edgec.exporter.bundle.manifest import Manifest
from edgec.exporter.embed.android_readme import android_readme
from edgec.exporter.embed.android_runtimes import RUNTIMES
from edgec.exporter.embed.app_facts import AppFacts, app_facts
from edgec.exporter.embed.chat_pieces import chat_pieces
from edgec.exporter.embed.kotlin_text import package_name
from edgec.exporter.embed.kotlin_values import BUNDLE_FOLDER, kotlin_values
from edgec.exporter.embed.template_text import fill, load
from edgec.exporter.embed.written_package import AppPackage, Files

_TEMPLATES = "edgec.exporter.embed.kotlin"
_MINIMUM_OS = "8.0"
_MODEL = (
    "BundleFiles",
    "DecoderFacts",
    "EdgecException",
    "EdgecModel",
    "GoldenReplay",
    "MemoryCheck",
    "ModelFacts",
    "Sampling",
    "Session",
    "TextStream",
    "Tokenization",
)
_BENCH = ("BenchActivity", "BenchRecords")
_JOB = {
    "device": "adb:SERIAL",
    "prompt_tokens": 128,
    "new_tokens": 64,
    "warmups": 3,
    "repetitions": 5,
    "loads": 3,
    "sustained_seconds": 0,
}


def gradle_modules(bundle: Bundle) -> AppPackage:
    """The Gradle modules of an Android bundle.

    Raises:
        InputError: E460 another system's bundle, E462 no tokenizer, E463 unreadable files, E464 no glue fits, E469 a
            number without a literal.
    """
    facts = app_facts(bundle, "android")
    _check(facts.manifest, facts.target.backend)
    assert bundle.tokenizer_dir is not None  # app_facts refuses a decoder without one
    pieces = chat_pieces(bundle.tokenizer_dir)
    values = kotlin_values(facts, pieces)
    sources = {path: fill(load(_TEMPLATES, name), values).encode() for path, name in _places(facts).items()}
    shipped = {
        f"{_asset_folder(facts)}/{name}": bundle.path / name for name in (MANIFEST, *(f.path for f in facts.files))
    }
    files: Files = {
        **sources,
        "README.md": android_readme(facts, pieces is not None).encode(),
        "bench/job.json": (json.dumps({**_JOB, "edgec_version": __version__}, indent=2) + "\n").encode(),
        **shipped,
    }
    return AppPackage(
        platform="android",
        module=package_name(facts.manifest.name),
        files=files,
        format=str(facts.manifest.format),
        minimum_os=_MINIMUM_OS,
        needed_bytes=facts.needed_bytes,
        asset_pack=facts.in_asset_pack,
        entitled=False,
    )


def _check(manifest: Manifest, backend: str) -> None:
    own = next((name for name in manifest.runtime.operators if name.startswith("edgec::")), None)
    if manifest.limits is None:
        raise _unfit(manifest, "the Kotlin wrapper is for language models", "call the runtime's own classes yourself")
    if (str(manifest.format), backend) not in RUNTIMES:
        raise _unfit(
            manifest, f"there is no Kotlin glue for {manifest.format} made by {backend}", "use --target android-cpu"
        )
    if own is not None:
        why = f"it calls edgec's operator {own}, which ExecuTorch's Android archive does not have"
        raise _unfit(manifest, why, "export it with --kernels standard")


def _places(facts: AppFacts) -> dict[str, str]:
    """Templates by the path of what they become."""
    folder = package_name(facts.manifest.name).replace(".", "/")
    model = f"model/src/main/kotlin/{folder}"
    runtime = RUNTIMES[str(facts.manifest.format), facts.target.backend]
    places = {
        "settings.gradle.kts": "settings.gradle.kts",
        "build.gradle.kts": "build.gradle.kts",
        "model/build.gradle.kts": "model.gradle.kts",
        "model/src/main/AndroidManifest.xml": "model.AndroidManifest.xml",
        "bench/build.gradle.kts": "bench.gradle.kts",
        "bench/src/main/AndroidManifest.xml": "bench.AndroidManifest.xml",
        **{f"{model}/{name}.kt": f"{name}.kt" for name in _MODEL},
        **{f"{model}/{name}.kt": f"{source}.kt" for name, source in runtime.templates.items()},
        **{f"bench/src/main/kotlin/{folder}/bench/{name}.kt": f"{name}.kt" for name in _BENCH},
    }
    return {**places, "model_pack/build.gradle.kts": "pack.gradle.kts"} if facts.in_asset_pack else places


def _asset_folder(facts: AppFacts) -> str:
    return f"{'model_pack' if facts.in_asset_pack else 'model'}/src/main/assets/{BUNDLE_FOLDER}"


def _unfit(manifest: Manifest, why: str, fix: str) -> InputError:
    return InputError("no app glue fits this bundle", manifest.name, why, fix, "E464")
