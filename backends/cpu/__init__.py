"""Artifacts for CPUs: edgec's kernels and XNNPACK in one program of ExecuTorch."""
