"""A captured decoder as a GGUF file: the way back of ``exporter/sources/gguf``."""
