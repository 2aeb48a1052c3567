"""Size, memory and speed predicted from a config alone."""
