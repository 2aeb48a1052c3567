"""Sweeps: export many recipes for many targets, measure them, and plot the Pareto front."""
