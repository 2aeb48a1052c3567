"""edgec's own interpreter of ML programs: executes a .mlpackage in torch, without a Mac.

    package = load_package(Path("model.mlpackage"))
    decode = package.functions["decode"]
    state = decode.fresh_state()
    logits = decode.run({"tokens": tokens, "start": start, "last": last}, state)["logits"]

It shows what the program computes, not what Apple's compiler makes of it, nor how fast (docs/iphone.md).
"""

from edgec.backends.coreml.interpreter.features import Feature
from edgec.backends.coreml.interpreter.function import MilFunction, MilState
from edgec.backends.coreml.interpreter.operators.table import Accumulate
from edgec.backends.coreml.interpreter.package import Package, load_package

__all__ = ["Accumulate", "Feature", "MilFunction", "MilState", "Package", "load_package"]
