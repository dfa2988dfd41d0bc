"""Stand-in for the Pulumi plugin `talos` 0.8.1, which wraps siderolabs' provider 0.11.0.

- `pki`, `machine_secrets`: key material, made here as the official plugin makes it.
- `contract`, `generate`, `patches`: machine configurations, as Talos 1.13.0's libraries do it.
- `client`: the simulated rack's image factory and machine API.
- `factory_resources`, `machine_resources`, `functions`: the resources and functions themselves.
- `provider`: the plugin.
"""
