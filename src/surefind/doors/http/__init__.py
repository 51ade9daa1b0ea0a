"""The HTTP server: thin routes over the functions that every interface uses."""
