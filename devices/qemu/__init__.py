"""The arm64 runner in qemu: right or wrong, never fast or slow."""
