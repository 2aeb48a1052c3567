"""What callers ask for and get: arguments of generation, streams."""
