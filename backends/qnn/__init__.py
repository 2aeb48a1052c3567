"""Snapdragon: static methods as context binaries for the Hexagon processor, executed here in its emulation."""
