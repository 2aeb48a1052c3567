"""Speech-language models on this machine: text that answers sound and text."""
