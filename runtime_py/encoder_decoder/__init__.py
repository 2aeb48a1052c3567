"""Encoder-decoders on this machine: texts from texts, and texts from speech."""
