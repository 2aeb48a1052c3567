"""The arm64 runner in qemu's user mode: its results are checked, its times are not."""
