"""From a model source to a verified bundle: resolve, capture, rewrite, lower, verify, bundle."""
