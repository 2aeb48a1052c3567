"""Facts about chips (units, clocks, bandwidth, with sources): one TOML file per family, read by ``targets.py``."""
