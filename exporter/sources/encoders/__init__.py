"""Encoders: of sentences, of two texts, and those of encoder-decoders."""
