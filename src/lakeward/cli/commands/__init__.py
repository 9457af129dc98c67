"""The commands: each calls the lake and prints the answer."""
