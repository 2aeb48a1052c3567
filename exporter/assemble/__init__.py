"""The last step: artifact, tokenizer, manifest, ledger and report become one folder."""
