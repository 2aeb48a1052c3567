"""The verified bundle: manifest, checksums, golden vectors, size ledger."""
