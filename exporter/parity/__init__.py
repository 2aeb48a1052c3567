"""Every stage compared numerically with the one before it."""
