"""Templates of the Gradle modules; ``@@name@@`` is filled in by edgec.devices.embed.gradle_modules."""
