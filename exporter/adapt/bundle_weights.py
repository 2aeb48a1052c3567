"""The weights of a bundle in a training graph, so that an adapter is trained beside the very integers it will meet.

A recipe that weighs errors by a text rounds otherwise in another execution: the statistics of a graph without the
bundle's float16 cache move its matrices by 2.5 % of their norm, those without any text by 5 % (a tiny random Llama).
"""

from __future__ import annotations

from torch.fx import GraphModule

from edgec.backends.cpu.linear.read_back import weights_of
from edgec.bundle.adapter_targets import targets_of
from edgec.bundle.folder import Bundle
from edgec.bundle.pte_layout import read_packed
from edgec.ir.attributes import set_buffer

_UNPACKED = ".weight_int_values"


def take_weights(graph: GraphModule, bundle: Bundle) -> int:
    """Put what a bundle's matrices stand for in place of a graph's own; returns how many there were.

    Args:
        graph: after ``train_adapter``, with unpacked weights; changed in place.
        bundle: for a CPU, of the same model and recipe, which is checked elsewhere (E699).

    Raises:
        InputError: E139, the artifact cannot be read; E690, it has no matrices that an adapter changes.
    """
    buffers = {name: value for name, value in graph.named_buffers() if name.endswith(_UNPACKED)}
    modules = {target.key: target.name for target in targets_of(bundle).targets}
    taken = 0
    for text, data in read_packed(bundle.artifact_path):
        module = modules.get(text.key)
        names = [name for name in buffers if module and f".{name}".endswith(f".{module}{_UNPACKED}")]
        for name in names:
            if buffers[name].shape == (text.rows, text.width):
                set_buffer(graph, name, weights_of(text, data))
                taken += 1
    return taken
