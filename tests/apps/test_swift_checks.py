"""The checks of `load()` in Swift, which is not run here: each rule is looked for in the parsed templates."""

from __future__ import annotations

import re

import pytest

from tests.apps.swift_syntax import in_tree, nodes, parse, text


def _function(template: str, start: str) -> str:
    """The text of a template's function, by the beginning of its declaration, without comments, on one line."""
    tree = parse(in_tree(template))
    function = next(text(node) for node in nodes(tree, "function_declaration") if start in text(node).split("{")[0])
    return " ".join(re.sub(r"//[^\n]*", "", function).split())


def test_the_golden_vectors_are_read_by_their_field_names() -> None:
    from edgec.bundle import golden, golden_texts

    read = {name: in_tree(name) for name in ("GoldenReplay", "GoldenText")}
    names = {
        template: {
            re.sub(r"([A-Z])", lambda f: f"_{f[1].lower()}", name)
            for name in re.findall(r"^ +let (\w+): ", source, re.MULTILINE)
        }
        for template, source in read.items()
    }
    assert set(golden_texts.TextVector.model_fields) <= names["GoldenText"]
    fields = {*golden_texts.ChatVector.model_fields, *golden.OutputVector.model_fields, *golden.Golden.model_fields}
    unread = {"rendered", "probes", "simulated_share", "golden_version", "functions"}
    assert fields - unread == names["GoldenReplay"] & fields
    modules = in_tree("GoldenFunctions")
    of_functions = set(re.findall(r"        let (\w+): \[?", modules)) & set(golden.FunctionVector.model_fields)
    assert of_functions == {"bounds", "indices", "values", "tolerance", "tolerances", "value_tolerances"}


RULES = [
    # NaN compares false with everything, so only a negated "within" refuses it.
    ("GoldenFunctions", "func compare", "!(abs(Double(output[index]) - value) <= tolerance)"),
    ("GoldenFunctions", "func compare", "!indices.isEmpty, indices.count == values.count else { throw"),
    ("GoldenFunctions", "func check", "guard !golden.functions.isEmpty"),
    ("GoldenReplay", "private static func check(", "if logits.contains(where: { $0.isNaN }) { throw"),
    ("GoldenReplay", "func checkOutputs", "if golden.outputs.isEmpty { throw"),
    # A template that cannot be rendered must reach `accepted`, so it must not throw before.
    (
        "GoldenReplay",
        "func checkTokens",
        "chats.filter { (try? tokenization.encode(messages($0))) != $0.ids }",
    ),
    ("MemoryCheck", "func availableBytes", "return bytes > 0 ? bytes : nil"),
    ("BundleCheck", "static func sha256(", "isMore = try autoreleasepool"),
    ("FirstStart", "func place", "isExcludedFromBackup = true"),
    ("FirstStart", "func folder", 'system("kern.osversion")'),
    ("FirstStart", "func folder", "if old.lastPathComponent != key { try? files.removeItem(at: old) }"),
    # Another load of the same bundle may have moved the compiled model there first.
    ("RuntimeCoreML", "func compiled", "if !FileManager.default.fileExists(atPath: kept.path) { throw error }"),
    ("RuntimeCoreAI", "func array", "NDArray(scalars: numbers, shape: input.shape)"),
    ("RuntimeCoreAI", "func read", "offsets(array.shape, array.strides)"),
    ("CallGate", "func exclusively", "defer { gate.isBusy = false"),
]


@pytest.mark.parametrize(("template", "function", "rule"), RULES)
def test_a_rule_stands_in_its_function(template: str, function: str, rule: str) -> None:
    assert rule in _function(template, function)


def test_no_array_of_core_ai_is_taken_to_be_contiguous() -> None:
    assert "contiguousElements" not in in_tree("RuntimeCoreAI")


def test_no_local_is_used_before_its_declaration() -> None:
    body = _function("EdgecModel", "func answer")
    assert body.index("let tokenization = self.tokenization") < body.index("tokenization.decode(")


def test_a_token_costs_no_sort_of_the_vocabulary_and_no_set_of_the_text() -> None:
    source = in_tree("Sampling")
    step = _function("Sampling", "func next")
    assert "Set(" not in step and "scores.indices.sorted" not in source
    assert "kept.count == 2 * count" in _function("Sampling", "func head")
