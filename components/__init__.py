"""The layers of the chain, a Pulumi component each, from the PCI bus to the pod.

Facts that choose what is built are plain values; values that flow between resources are inputs.
Children are named after their component and inherit its providers.
"""
