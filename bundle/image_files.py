"""The files of a bundle that say how an image becomes the input of a vision-language model."""

from __future__ import annotations

IMAGE_FOLDER = "images"
"""Their folder in the bundle."""
PREPROCESSOR, PROCESSOR = "preprocessor_config.json", "processor_config.json"
IMAGE_FILES = (PREPROCESSOR, PROCESSOR)
