"""Stand-in for the Pulumi plugin `talos` 0.8.1, which wraps siderolabs' provider 0.11.0.

- `pki`, `machine_secrets`: key material, made here as the official plugin makes it.
- `versions`, `generate`: machine configurations, as Talos 1.13.0's libraries generate them.
- `documents`, `patches`, `merge`, `jsonpatch`, `yamltext`: reading and patching them.
- `client`: the simulated rack's image factory and machine API.
- `resource` and a module per resource; `functions`; `provider`: the plugin itself.
"""
