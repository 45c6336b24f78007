"""Readers of file formats, one per file. They return arrays, records or bytes, independent of the options of a data set."""
