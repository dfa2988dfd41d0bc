"""One HTML page of a stack: every GPU's way from the host to a pod, and what was found on it."""
