"""What passes share: editing a graph, observing its values, and visiting its layers on calibration text."""
