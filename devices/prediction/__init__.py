"""Estimates of a model's size, memory and speed on a target, made before a phone is attached."""
