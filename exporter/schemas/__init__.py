"""A JSON Schema compiled at export: an automaton over bytes that an app's engine follows without a library."""
