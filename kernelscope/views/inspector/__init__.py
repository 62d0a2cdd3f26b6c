"""The inspector: kernels, their specializations, why each was compiled, and their code."""
