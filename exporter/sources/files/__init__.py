"""Files of a model as they lie on disk: folders, safetensors, pickles, pieces mapped into memory."""
