"""Resolve the options before any work: project file, target, format, kernels, calibration text, memory."""
