"""From file content to model inputs: steps that several data sets share."""
