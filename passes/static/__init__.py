"""Passes for accelerators: fixed shapes, and the forms and numbers that NPUs can compute."""
