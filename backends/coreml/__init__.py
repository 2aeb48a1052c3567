"""Core ML: lowering, the package as a file, and its execution without a Mac."""
