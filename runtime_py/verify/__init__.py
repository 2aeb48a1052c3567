"""A bundle checked again: its files, its golden vectors, its artifact on this machine or under an emulator."""
