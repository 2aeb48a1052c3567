"""Writers of quantised checkpoints, for benchmarks/checkpoint_fates.py."""
