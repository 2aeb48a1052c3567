"""The engine and the runner compiled for this machine or for a phone."""
