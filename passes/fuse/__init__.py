"""Passes that turn a group of operators into one."""
