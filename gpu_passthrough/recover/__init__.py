"""After an interrupted `pulumi up` or `destroy`: what is left in between, found and settled.

Three things can be left: the state's lock, resources that were being created when the engine
ended, and a Helm release that was being installed. Each is asked about where it lives.
"""
