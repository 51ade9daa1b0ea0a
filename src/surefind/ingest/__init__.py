"""Files -> Documents. One format a file; the name of the file is the name of the reader."""
