"""Searches for the best configuration by racing: all candidates on few questions, survivors on more."""
