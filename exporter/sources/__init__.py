"""Whatever MODEL is, it becomes a ModelSource with checked weights, or a typed error."""
