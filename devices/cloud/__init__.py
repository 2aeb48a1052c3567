"""Phones that others host: jobs prepared here, submitted there, results in edgec's own form."""
