"""Load the tokenizer that lies beside a model, or say why that is impossible."""

from __future__ import annotations
