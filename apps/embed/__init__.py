"""Generators of app source code from a bundle: a Swift package for iOS, Gradle modules in Kotlin for Android."""
