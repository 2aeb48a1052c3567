"""Recipes: how a model is compressed, as data from TOML, and what each backend can execute."""
