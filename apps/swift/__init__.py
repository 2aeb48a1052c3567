"""Templates of the Swift package; ``@@name@@`` is filled in by edgec.apps.embed.swift_package."""
