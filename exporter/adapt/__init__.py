"""Train a rewritten model against the original: what ``edgec adapt`` does, an idea per file."""
