"""Every operator of the interpreter that a package can hold."""

from tests.backends.coreml.interpreter import elementwise_cases, layout_cases, linear_cases

CASES = [*elementwise_cases.CASES, *linear_cases.CASES, *layout_cases.CASES]
