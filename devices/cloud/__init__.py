"""Phones in hosted device farms: jobs are prepared here and run there; results come back in edgec's own form."""
