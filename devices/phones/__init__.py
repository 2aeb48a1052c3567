"""Phones as data: one TOML file per maker."""
