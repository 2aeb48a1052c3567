"""JSON Schema as the engine enforces it: each keyword checked, rewritten where needed, or refused by name."""
