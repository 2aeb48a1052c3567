"""Text held to a JSON Schema, a regular expression or a grammar: which tokens may come next, and the value."""
