"""The last step: join artifact, tokenizer, manifest, ledger and report to one bundle."""
