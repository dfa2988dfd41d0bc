"""What `kubectl exec` reaches in a pod of the rack: programs that compute from the pod's view.

They use the standard library alone, so that they start fast and run with any Python from 3.11 on.
"""
