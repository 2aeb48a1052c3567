"""The format on disk: manifest, folder, atomic writing, golden vectors, the layout of a .pte file."""
