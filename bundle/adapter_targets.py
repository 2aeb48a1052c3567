"""The matrices of a bundle that an adapter may change, recorded at export: names in the model, keys in the artifact.

A matrix is named as PEFT names its module (``model.layers.0.self_attn.q_proj``), and is found in the artifact under the
sha256 of its bytes, by which programs name their data.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

from pydantic import Field

from edgec.bundle.folder import Bundle
from edgec.bundle.limited_json import JsonKind, read_model
from edgec.bundle.part import JsonPart, JsonSize, Sha256
from edgec.errors import InputError

TARGETS = "adapter_targets.json"
_KIND = JsonKind(
    "The bundle's list of adapter targets cannot be read.",
    fix="copy the bundle again from where it was intact, or export the model again",
    code="E690",
)


class AdapterTarget(JsonPart):
    """A matrix that edgec's kernels multiply by: its module's name, its key in the artifact, and its size."""

    name: str
    key: Sha256
    rows: JsonSize
    width: JsonSize


class AdapterTargets(JsonPart):
    """All such matrices; ``changed_by``: the passes that gave them another basis than the model's."""

    version: Literal[1] = 1
    changed_by: list[str] = Field(default=[])
    targets: list[AdapterTarget]

    @property
    def shared(self) -> frozenset[str]:
        """The keys of bytes that several modules share, so that one of them cannot be changed alone."""
        modules = Counter(key for _, key in {(target.name, target.key) for target in self.targets})
        return frozenset(key for key, count in modules.items() if count > 1)


def targets_of(bundle: Bundle) -> AdapterTargets:
    """What adapters may change in a bundle.

    Raises:
        InputError: E690, nothing, and why.
    """
    manifest = bundle.manifest
    if any(file.path == TARGETS for file in manifest.files):
        targets = read_model(bundle.path / TARGETS, AdapterTargets, _KIND)
        if targets.changed_by:
            passes = " and ".join(f"the pass {name}" for name in targets.changed_by)
            raise _refused(bundle, f"{passes} rewrote its matrices, and an adapter fits the model's own")
        return targets
    if manifest.limits is None:
        raise _refused(bundle, f"adapters change decoders, and this model's task is {manifest.model.task}")
    if manifest.recipe.get("kernels") == "standard":
        raise _refused(bundle, 'its recipe says kernels = "standard", and only edgec\'s own kernels add adapters')
    if manifest.adapters:
        names = ", ".join(adapter.name for adapter in manifest.adapters)
        raise _refused(bundle, f"its artifact has functions under {names}, and takes no files: --adapter NAME uses one")
    if "EdgecLinear" not in manifest.runtime.backends:
        ran_by = ", ".join(manifest.runtime.backends) or manifest.runtime.name
        raise _refused(bundle, f"{ran_by} computes its matrices, and only edgec's own kernels add adapters")
    raise _refused(bundle, "it was exported by a version of edgec that recorded no targets")


def _refused(bundle: Bundle, why: str) -> InputError:
    return InputError(
        "This bundle takes no adapters.",
        where=str(bundle.path),
        why=why,
        fix="export the model for a CPU with integer weights, edgec's kernels and no prepare in its recipe",
        code="E690",
    )
