"""Phones' GPUs: ExecuTorch programs with Vulkan delegates. They are lowered and reported on here, not executed."""
