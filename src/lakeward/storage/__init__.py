"""Where bytes live: local files and object stores."""
