"""What edgec run, embed and score print."""
