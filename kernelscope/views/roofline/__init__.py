"""The roofline of measured kernels: its model, and the figure, the picture and the table that are made of it."""
