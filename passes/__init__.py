"""Graph rewrites, one pass per file, in folders by purpose."""
