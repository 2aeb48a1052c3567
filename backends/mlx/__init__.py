"""ExecuTorch's MLX delegate for Apple's GPUs: lowering, and an interpreter of its programs over ``mlx``."""
