"""Turn any form of MODEL into a ModelSource with checked weights, or raise a typed error."""
