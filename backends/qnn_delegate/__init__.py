"""Snapdragon through ExecuTorch: programs with QNN delegates, made with the SDK that the user has from Qualcomm."""
