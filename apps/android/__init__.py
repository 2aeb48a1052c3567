"""Templates of the Gradle modules; ``@@name@@`` is filled in by edgec.apps.embed.gradle_modules."""
