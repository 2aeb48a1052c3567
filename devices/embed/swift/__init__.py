"""Templates of the Swift package; ``@@name@@`` is filled in by edgec.devices.embed.swift_package."""
