"""Snapdragon through ExecuTorch: programs with QNN delegates, made with the user's own SDK from Qualcomm."""
