"""Graph rewrites, one pass per file, in rooms by purpose."""
