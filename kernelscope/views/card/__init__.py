"""The card: a cell's result as text and as HTML."""
