"""A local server that speaks OpenAI's protocol: one or several bundles, for clients that exist already."""
