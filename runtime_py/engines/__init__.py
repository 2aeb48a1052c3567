"""What executes an artifact on this machine: edgec's engine, ExecuTorch's binding, interpreters and emulations."""
