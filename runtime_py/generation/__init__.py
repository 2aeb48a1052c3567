"""The loop that writes a text from a decoder, and the calls of tools in it."""
