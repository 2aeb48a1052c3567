"""What everything else speaks about: programs, model specs, edgec's operators, quantised weights, methods and calls."""
