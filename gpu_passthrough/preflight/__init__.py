"""Checks against the live Proxmox VE API before anything is created there. They only read."""
