"""The HTTP API of Proxmox VE over the rack's world: its paths, fields, types and errors.

Written after pve-manager, pve-storage, qemu-server and pve-access-control of Proxmox VE 9. What is
not here answers 501, as Proxmox VE does for a path that it does not have.
"""
