"""Targets as data, and the machines that bundles are measured on."""
