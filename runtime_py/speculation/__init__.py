"""Lossless speculation: tokens guessed cheaply, checked together in one call of the model."""
