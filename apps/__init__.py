"""Apps around bundles: what ``embed`` writes into a Swift package or Gradle modules."""
