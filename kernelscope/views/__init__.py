"""What is shown of a finished recording: one package a subject, with its model and every way it is printed."""
