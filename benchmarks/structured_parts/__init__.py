"""Structured output measured: vocabularies, masks, texts of schemas, and instances that are judged."""
