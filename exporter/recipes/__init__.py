"""Recipes: how a model is made small, as data from TOML, and what each backend can execute of it."""
