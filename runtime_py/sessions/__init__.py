"""KV state outside the runtime: which bytes it is, what it depends on, and the file it is kept in."""
