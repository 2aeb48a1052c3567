"""Target devices as TOML data, predictions for them, transports to real ones, the native runner, and app packages."""
