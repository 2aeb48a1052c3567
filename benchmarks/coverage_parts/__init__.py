"""Parts of the coverage benchmark: tiny configurations, one model type checked, the table of the results."""
