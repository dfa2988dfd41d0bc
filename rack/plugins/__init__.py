"""Stand-ins for the official Pulumi plugins `proxmoxve` and `talos`, for the simulated rack only.

Each accepts exactly what the official plugin accepts (`schemas/*.json`) and turns it into calls of
the simulated rack's HTTP APIs. `contract` holds what both share about the schema, `server` the
plugin protocol.
"""
