"""The GPUs of a cluster while they work: what each does, and for which pod."""
