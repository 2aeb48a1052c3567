"""Serves the passes for accelerators: attention over states, layouts, and models cut into parts."""
