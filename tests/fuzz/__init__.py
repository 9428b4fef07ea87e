"""Damaged bytes against everything that reads bytes from outside; see ``targets.py``."""
