"""Vision-language models on this machine: text that answers images and text."""
