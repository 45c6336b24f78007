"""Stored runs made readable: tables, an interactive page, figures. Nothing here runs an experiment."""
