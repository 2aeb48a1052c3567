"""The text on which an export calibrates weights where it is given none."""
