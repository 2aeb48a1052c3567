"""Modules that are no language models: factories, TorchScript, and inputs that were given."""
