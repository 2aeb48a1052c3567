"""``--format`` and ``--layout`` keep phone and unit."""

from __future__ import annotations

import pytest

from edgec.backends.forms import FORMS, form_of
from edgec.bundle.layouts import DEFAULT_LAYOUT, LAYOUTS
from edgec.devices.targets import all_targets, load_target
from edgec.errors import InputError
from edgec.exporter.options import ExportOptions
from edgec.exporter.resolve.resolved import resolve_options
from edgec.exporter.resolve.target_choice import in_format, in_layout, on_unit


@pytest.mark.parametrize("format", ["pte", "mlpackage", "aimodel"])
def test_the_neural_engine_has_three_formats(format: str) -> None:
    target = in_format(load_target("iphone-16-pro"), format)
    assert (target.phone, target.unit, target.format) == ("iphone-16-pro", "npu", format)
    assert form_of(target).static


def test_the_default_of_a_phone_is_a_program_for_executorch() -> None:
    target = load_target("iphone-16-pro")
    assert (target.format, target.backend, target.export_supported) == ("pte", "coreml", True)


def test_an_alias_keeps_its_name_so_that_the_model_still_chooses_the_phone() -> None:
    assert in_format(load_target("iphone"), "aimodel").name == "iphone"


def test_a_format_that_a_unit_lacks_is_refused() -> None:
    with pytest.raises(InputError, match="E403"):
        in_format(load_target("iphone-16-pro-cpu"), "mlpackage")


@pytest.mark.parametrize("name", ["iphone", "iphone-16-pro", "ipad-pro-m1", "mac-m4"])
@pytest.mark.parametrize(("format", "backend"), [(None, "coreml_gpu"), ("aimodel", "coreai_gpu"), ("pte", "mlx")])
def test_apples_gpus_have_formats_of_their_own(name: str, format: str | None, backend: str) -> None:
    target = in_format(on_unit(load_target(name), "gpu"), format)
    assert (target.name if name == "iphone" else "iphone", target.unit, target.backend) == ("iphone", "gpu", backend)
    form = form_of(target)
    assert form.apple_unit == "gpu" and not form.convolutions and not form.linear_width
    assert form.fused_attention is (backend != "mlx") and form.single is (backend == "mlx")


def test_a_unit_that_a_phone_lacks_is_refused() -> None:
    with pytest.raises(InputError, match="E869") as caught:
        on_unit(load_target("mac-m4"), "npu")
    assert caught.value.why == "it has gpu" and "--unit gpu" in caught.value.fix
    assert on_unit(load_target("mac-m4"), None) == load_target("mac-m4")


def test_every_target_that_can_be_exported_has_a_form() -> None:
    for target in all_targets():
        if target.export_supported:
            assert (target.backend, target.format) in FORMS


def test_every_format_has_edgecs_own_layout_and_those_of_the_table() -> None:
    one_of_each = {target.format: target for target in all_targets()}
    assert set(LAYOUTS[DEFAULT_LAYOUT].formats) == set(one_of_each)
    for name, layout in LAYOUTS.items():
        for format in layout.formats:
            assert in_layout(one_of_each[format], name).layout == name
    assert in_layout(load_target("host"), None) == load_target("host")


@pytest.mark.parametrize(
    ("layout", "format"),
    [
        (name, format)
        for name, each in LAYOUTS.items()
        for format in LAYOUTS["edgec"].formats
        if format not in each.formats
    ],
)
def test_a_layout_that_a_format_cannot_have_is_refused(layout: str, format: str) -> None:
    target = next(each for each in all_targets() if each.format == format)
    with pytest.raises(InputError, match="E854") as caught:
        in_layout(target, layout)
    assert LAYOUTS[layout].formats[0] in caught.value.fix and caught.value.where == "--layout"


def test_it_is_refused_before_the_model_is_looked_for() -> None:
    with pytest.raises(InputError, match="E854"):
        resolve_options(ExportOptions("no/such-model", target="host", layout="genai"))
