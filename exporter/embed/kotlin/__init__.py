"""Templates of the Gradle modules; ``@@name@@`` is filled in by edgec.exporter.embed.gradle_modules."""
