"""Every algorithm against its reference, its identities, its closed forms and its specification."""
