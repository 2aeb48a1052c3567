"""A bundle as source code that an app embeds: a Swift package, or Gradle modules."""
