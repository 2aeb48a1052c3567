"""The parity ladder: every stage is compared numerically with the one before it."""
