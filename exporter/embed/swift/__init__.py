"""Templates of the Swift package; ``@@name@@`` is filled in by edgec.exporter.embed.swift_package."""
