"""Text from a decoder: steps, sampling, stops, streams."""
