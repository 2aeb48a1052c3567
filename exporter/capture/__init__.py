"""torch.export over fake weights, through one attention operator."""
