"""The bench app of a bundle as a transport: built by Xcode, installed, and awaited."""
