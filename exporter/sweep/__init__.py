"""Many recipes on many targets: exported, measured, and plotted as a Pareto front."""
