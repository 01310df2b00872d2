"""What run.py is made of; one subject a file."""
