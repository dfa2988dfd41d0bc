"""The kubelet's own API: what `kubectl exec` and `kubectl logs` reach through the API server."""
