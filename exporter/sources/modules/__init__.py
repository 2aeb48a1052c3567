"""Modules beside language models: factories, TorchScript, and inputs that were given."""
