"""Checkpoints that hold what guesses a model's next tokens, made by others for a model that they do not hold."""
