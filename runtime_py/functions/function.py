"""A non-decoder model: named arrays in, named arrays out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgec.bundle.entry_points import MethodInfo, TensorInfo
from edgec.errors import InputError
from edgec.runtime_py.engines.choice import engine_for
from edgec.runtime_py.engines.executor import Array
from edgec.runtime_py.engines.open_artifact import open_artifact
from edgec.runtime_py.engines.threads import use_threads
from edgec.runtime_py.engines.trial import try_first

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle

_WHOLE = ("int8", "uint8", "int16", "int32", "int64")


class Function:
    """The first method of a bundle's artifact as a Python function."""

    def __init__(self, bundle: Bundle, threads: int | None = None) -> None:
        """Load the artifact.

        Raises:
            InputError: E157, there is no method, or the runtime refuses it; E168 or E169 as `try_first`.
        """
        if not bundle.manifest.methods:
            fix = "run: edgec verify, or export the model again"
            raise InputError("The artifact could not be loaded.", str(bundle.path), "it has no method", fix, "E157")
        self.bundle = bundle
        self.engine = engine_for(bundle)
        try_first(bundle, self.engine)
        self.threads = use_threads(self.engine, threads)
        self.info = bundle.manifest.methods[0]
        self._executor = open_artifact(bundle, self.engine, self.info.name)

    def run(self, **inputs: Any) -> dict[str, Array]:
        """Execute the model once.

        Args:
            inputs: one array per input of the manifest, with its shape and dtype, whole numbers in any type that holds
                them; or, where the manifest says how they are prepared, the path of an image, an image of Pillow, or
                the path of a sound no longer than the input.

        Returns:
            One array per output of the manifest.

        Raises:
            InputError: E152, a name, shape or dtype differs from the manifest's; E653 to E655, an image; E177, E178 or
                E853, a sound.
        """
        _check_names(inputs, self.info)
        given = {name: self._prepared(name, value) for name, value in inputs.items()}
        arrays = [_checked(_array(given[info.name], info), info, self.info) for info in self.info.inputs]
        outputs = self._executor.run(arrays)
        return {info.name: out for info, out in zip(self.info.outputs, outputs, strict=True)}

    def _prepared(self, name: str, value: Any) -> Any:
        """An image or a sound as the input that the manifest declares; anything else as it is."""
        how = self.bundle.manifest.prepared.get(name)
        if (
            how is None
            or isinstance(value, np.ndarray)
            or not (isinstance(value, str | Path) or hasattr(value, "mode"))
        ):
            return value
        from edgec.runtime_py.functions.prepared_inputs import prepared_from

        info = next(each for each in self.info.inputs if each.name == name)
        return prepared_from(value, how, name, tuple(map(int, info.shape)), info.dtype.removeprefix("torch."))


def _check_names(inputs: dict[str, Any], method: MethodInfo) -> None:
    wanted = [info.name for info in method.inputs]
    if sorted(inputs) != sorted(wanted):
        raise InputError(
            "The inputs do not match those of the model.",
            where=method.name,
            why=f"given: {', '.join(sorted(inputs)) or 'none'}",
            fix=f"give: {', '.join(wanted)}",
            code="E152",
        )


def _array(value: object, info: TensorInfo) -> Array:
    try:
        return np.asarray(value)
    except ValueError as cause:  # lists of unequal lengths
        what, fix = f"The input {info.name!r} is not an array.", f"give {info.dtype} {info.shape}"
        raise InputError(what, where="run", why=str(cause), fix=fix, code="E152") from cause


def _checked(array: Array, info: TensorInfo, method: MethodInfo) -> Array:
    dtype = info.dtype.removeprefix("torch.")
    array = _narrowed(array, dtype)
    if str(array.dtype) == dtype and _fits(array.shape, info, method):
        return array
    raise InputError(
        f"The input {info.name!r} is {array.dtype} {list(array.shape)}.",
        where=method.name,
        fix=f"give {dtype} {info.shape}, where {method.dynamic}" if method.dynamic else f"give {dtype} {info.shape}",
        code="E152",
    )


def _narrowed(array: Array, dtype: str) -> Array:
    """Whole numbers in the artifact's type, where it holds them all: one code serves artifacts of 32 and 64 bits."""
    wanted = np.dtype(dtype) if dtype in _WHOLE else None
    if wanted is None or array.dtype == wanted or array.dtype.kind not in "iu" or not array.size:
        return array
    limits = np.iinfo(wanted)
    return array.astype(wanted) if limits.min <= array.min() and array.max() <= limits.max else array


def _fits(shape: tuple[int, ...], info: TensorInfo, method: MethodInfo) -> bool:
    ranges = [(size, size) if isinstance(size, int) else method.dynamic[size] for size in info.shape]
    return len(shape) == len(ranges) and all(low <= n <= high for n, (low, high) in zip(shape, ranges, strict=True))
