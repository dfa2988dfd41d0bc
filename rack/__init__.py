"""The simulated rack: hosts, machines and cards that are not there, and obey the real ones' rules."""
