"""The machinery of ``make bench``: cases, fresh processes, rounds, the results file, tables and plots."""
