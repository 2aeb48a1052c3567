"""What the config of a decoder says: spec, rotations, experts, positions."""
