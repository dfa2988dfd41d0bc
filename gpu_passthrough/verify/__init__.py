"""Proof that the chain works: what a cluster says, and a program that computes on each card."""
