"""Weights of a folder: streamed tensor by tensor, under the names that the model asks for."""
