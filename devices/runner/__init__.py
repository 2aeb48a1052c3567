"""The standalone runner on a device: what travels there, how it is started, and how its output is read."""
