"""Files of sounds and images as arrays."""
