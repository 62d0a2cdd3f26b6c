"""What runs in the process of a target: it needs the framework and NumPy, and nothing of KernelScope.

Python 3.9 and later: it must start where KernelScope itself would not.
"""
