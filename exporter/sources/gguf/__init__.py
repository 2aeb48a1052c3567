"""GGUF files as models: config, tokenizer and weights, block for block."""
