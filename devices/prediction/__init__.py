"""Size, memory and speed, estimated before a phone is attached."""
