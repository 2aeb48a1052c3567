"""Bits per layer under a budget: what each width would cost the model, and the cheapest choice."""
