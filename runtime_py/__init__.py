"""Run a bundle on this machine: generate, measure, evaluate, report."""
