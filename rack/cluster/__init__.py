"""The Kubernetes cluster of the rack: a real control plane, and what simulates its nodes."""
