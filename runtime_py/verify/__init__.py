"""A bundle checked anew: its files, its golden vectors, its artifact in every engine there is."""
