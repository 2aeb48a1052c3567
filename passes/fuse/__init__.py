"""Passes that write a group of operators as one."""
