"""The simulated rack's stand-in for the official `proxmoxve` plugin.

It speaks nothing but Proxmox VE's own HTTP API (`client`), with the option strings of qemu-server
(`codec`, `devices`), and maps fields as the official provider does.
"""
