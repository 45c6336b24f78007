"""The machinery of the papers' experiments: runs, claims, verdicts, figures, pages."""
