"""How a model is made small, as data: named recipes, recipes from TOML, and what backends can read of them."""
