"""Passes for accelerators: fixed shapes, and the operators, layouts and numbers that NPUs can compute."""
