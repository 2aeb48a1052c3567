"""Whose kernels an artifact calls: edgec's where they can be built and checked here, else ExecuTorch's."""

from __future__ import annotations
