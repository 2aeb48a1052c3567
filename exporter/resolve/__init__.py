"""What was asked for, resolved before any work: project file, target, format, kernels, calibration text, memory."""
