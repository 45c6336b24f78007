"""Readers of file formats, one per file; they return arrays, records or bytes and take no option of a data set."""
