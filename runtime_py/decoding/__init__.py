"""One step after the other: the decoder, sampling, stops, and the text that is certain."""
