"""What a pull request would do to each stack, for people: a plan that is read in ten seconds.

This is about the repository, not about the program: which files belong to which stack, how the
engine's preview is run where nothing can be reached, and how its events become a comment.
"""
