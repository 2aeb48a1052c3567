"""The bundle on disk: manifest, atomic writing, tokenizer, golden vectors, and the layout of a .pte file."""
