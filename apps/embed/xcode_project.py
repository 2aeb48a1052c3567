"""The Xcode project of an app next to the package: an XML property list, which Xcode reads, with names escaped."""

from __future__ import annotations

import hashlib
import plistlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

BENCH = "EdgecBench"
"""The name of the app that measures."""
_SETTINGS = {
    "CODE_SIGN_STYLE": "Automatic",
    "CURRENT_PROJECT_VERSION": "1",
    "GENERATE_INFOPLIST_FILE": "YES",
    "INFOPLIST_KEY_LSSupportsOpeningDocumentsInPlace": "YES",
    "INFOPLIST_KEY_UIApplicationSceneManifest_Generation": "YES",
    "INFOPLIST_KEY_UIFileSharingEnabled": "YES",
    "INFOPLIST_KEY_UILaunchScreen_Generation": "YES",
    "MARKETING_VERSION": "1.0",
    "SDKROOT": "iphoneos",
    "SUPPORTED_PLATFORMS": "iphoneos iphonesimulator",
    "SWIFT_VERSION": "6.0",
    "TARGETED_DEVICE_FAMILY": "1,2",
}


def xcode_project(
    app: str,
    module: str,
    sources: Sequence[str],
    xcconfig: str,
    minimum_os: tuple[int, int],
    entitlements: str | None,
    folder: str | None = None,
    stated: Mapping[str, str] = MappingProxyType({}),
) -> bytes:
    """The content of ``project.pbxproj`` for an app that links the package next to it.

    Args:
        app: the app's name, and that of the folder with its Swift files.
        module: the package's library product.
        sources: names of the Swift files.
        xcconfig: path of the settings from the project's folder.
        minimum_os: deployment target.
        entitlements: path of the entitlements from the project's folder, or None.
        folder: path of a folder to copy into the app unchanged, from the project's folder, or None.
        stated: further settings, such as why the app records.
    """
    settings = {
        **_SETTINGS,
        **stated,
        "IPHONEOS_DEPLOYMENT_TARGET": ".".join(map(str, minimum_os)),
        "PRODUCT_NAME": app,
        "PRODUCT_BUNDLE_IDENTIFIER": f"org.example.{module}.{app.removeprefix('Edgec').lower()}",
        **({"CODE_SIGN_ENTITLEMENTS": entitlements} if entitlements else {}),
    }
    objects = {
        **_files(app, module, sources),
        **_groups(app, sources, xcconfig, folder),
        **_target(app, sources, folder),
        **_configurations(settings),
        **_root(),
    }
    project = {
        "archiveVersion": "1",
        "classes": {},
        "objectVersion": "60",
        "objects": objects,
        "rootObject": _id("project"),
    }
    return plistlib.dumps(project, sort_keys=True)


def _id(name: str) -> str:
    """An identifier in Xcode's form (24 hexadecimal digits): a hash of the object's name."""
    return hashlib.sha256(name.encode()).hexdigest()[:24].upper()


def _object(kind: str, **fields: Any) -> dict[str, Any]:
    return {"isa": kind, **fields}


def _file(path: str, kind: str) -> dict[str, Any]:
    return _object("PBXFileReference", lastKnownFileType=kind, path=path, sourceTree="<group>")


def _files(app: str, module: str, sources: Sequence[str]) -> Mapping[str, Any]:
    references = {_id(f"file {name}"): _file(name, "sourcecode.swift") for name in sources}
    builds = {_id(f"build {name}"): _object("PBXBuildFile", fileRef=_id(f"file {name}")) for name in sources}
    product = _object(
        "PBXFileReference",
        explicitFileType="wrapper.application",
        includeInIndex="0",
        path=f"{app}.app",
        sourceTree="BUILT_PRODUCTS_DIR",
    )
    return {
        **references,
        **builds,
        _id("app"): product,
        _id("link"): _object("PBXBuildFile", productRef=_id("library")),
        _id("library"): _object("XCSwiftPackageProductDependency", productName=module),
        _id("package"): _object("XCLocalSwiftPackageReference", relativePath=".."),
    }


def _groups(app: str, sources: Sequence[str], xcconfig: str, folder: str | None) -> Mapping[str, Any]:
    carried = {_id("folder"): _file(folder, "folder")} if folder is not None else {}
    top = [_id("source group"), _id("settings"), *carried, _id("products")]
    return {
        **carried,
        _id("settings"): _file(xcconfig, "text.xcconfig"),
        _id("source group"): _object(
            "PBXGroup", children=[_id(f"file {name}") for name in sources], path=app, sourceTree="<group>"
        ),
        _id("products"): _object("PBXGroup", children=[_id("app")], name="Products", sourceTree="<group>"),
        _id("main group"): _object("PBXGroup", children=top, sourceTree="<group>"),
    }


def _phase(kind: str, files: Sequence[str]) -> dict[str, Any]:
    return _object(kind, buildActionMask="2147483647", files=list(files), runOnlyForDeploymentPostprocessing="0")


def _target(app: str, sources: Sequence[str], folder: str | None) -> Mapping[str, Any]:
    carried = {_id("carry"): _object("PBXBuildFile", fileRef=_id("folder"))} if folder is not None else {}
    phases = {
        _id("sources"): _phase("PBXSourcesBuildPhase", [_id(f"build {name}") for name in sources]),
        _id("frameworks"): _phase("PBXFrameworksBuildPhase", [_id("link")]),
        _id("resources"): _phase("PBXResourcesBuildPhase", list(carried)),
    }
    target = _object(
        "PBXNativeTarget",
        buildConfigurationList=_id("target configurations"),
        buildPhases=list(phases),
        buildRules=[],
        dependencies=[],
        name=app,
        packageProductDependencies=[_id("library")],
        productName=app,
        productReference=_id("app"),
        productType="com.apple.product-type.application",
    )
    return {**carried, **phases, _id("target"): target}


def _configurations(settings: Mapping[str, str]) -> Mapping[str, Any]:
    configurations: dict[str, Any] = {}
    for level, own in (("project", {}), ("target", dict(settings))):
        names = [_id(f"{level} {name}") for name in ("Debug", "Release")]
        for identifier, name in zip(names, ("Debug", "Release"), strict=True):
            base = {"baseConfigurationReference": _id("settings")} if level == "target" else {}
            configurations[identifier] = _object("XCBuildConfiguration", buildSettings=own, name=name, **base)
        configurations[_id(f"{level} configurations")] = _object(
            "XCConfigurationList",
            buildConfigurations=names,
            defaultConfigurationIsVisible="0",
            defaultConfigurationName="Release",
        )
    return configurations


def _root() -> Mapping[str, Any]:
    return {
        _id("project"): _object(
            "PBXProject",
            attributes={"BuildIndependentTargetsInParallel": "1", "LastUpgradeCheck": "1600"},
            buildConfigurationList=_id("project configurations"),
            compatibilityVersion="Xcode 15.0",
            developmentRegion="en",
            hasScannedForEncodings="0",
            knownRegions=["en", "Base"],
            mainGroup=_id("main group"),
            packageReferences=[_id("package")],
            productRefGroup=_id("products"),
            projectDirPath="",
            projectRoot="",
            targets=[_id("target")],
        )
    }
