"""What everything else is made of: values, errors, access, stages and their protocols, files on disk, threads, text."""
