"""Core AI (iOS 27): the successor of Core ML, whose runtime also executes on Linux."""
