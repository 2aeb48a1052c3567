"""XNNPACK through ExecuTorch: the CPU of every phone, and of this machine."""
