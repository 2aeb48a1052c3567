"""What passes share: editing a graph, looking at its values, and walking its layers."""
