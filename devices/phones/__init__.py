"""Facts about phones, boards and computers (chip, memory, app limits): TOML files by maker, read by ``targets.py``."""
