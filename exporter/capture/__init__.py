"""Capture models with torch.export, over fake weights and with one attention operator."""
