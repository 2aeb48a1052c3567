"""Bundles on the Hugging Face hub: their addresses, and copies of them on this machine."""
