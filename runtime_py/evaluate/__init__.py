"""The quality of a bundle's answers: perplexity and tasks."""
