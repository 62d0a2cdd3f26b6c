"""Finished recordings: building, holding, writing and reading them. No GPU and no framework is needed here."""
