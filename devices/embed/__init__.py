"""A bundle as source code for apps: a Swift package, or Gradle modules in Kotlin."""
