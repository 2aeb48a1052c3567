"""The runtimes that edgec is compared with: llama.cpp and ExecuTorch's own export."""
