"""The named recipes, one TOML file each; docs/recipes.md says how they were chosen."""
