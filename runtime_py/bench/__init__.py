"""Measurements on a device: jobs, records, tables, comparisons."""
