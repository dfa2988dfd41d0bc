"""The simulated rack: hosts, machines and cards that are not there, under the real rules."""
