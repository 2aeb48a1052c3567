"""Chips as data: one TOML file per family."""
