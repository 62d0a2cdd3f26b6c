"""JAX: compiles of jitted functions and of single operations, and hits of the persistent cache."""

from __future__ import annotations

from kernelscope.registry import Framework

FRAMEWORK = Framework(
    "jax", module="jax", probe="kernelscope.frameworks.jax.hooks:JaxProbe",
    fixes="kernelscope.frameworks.jax.explain:FIXES", is_seen_by_cupti=True,
    packages={"jax": "compiles and hits of the persistent cache, with stages and reasons by argument; launches and "
                     "graphs with CUPTI"},
    remedies={
        "disk_cache": "jax_compilation_cache_dir (with jax_persistent_cache_min_compile_time_secs at 0 for compiles of "
                      "less than a second)",
        "fewer_launches": "Put more of the work into one jitted function, such as the loop itself with jax.lax.scan.",
        "own_graphs": True,
        "new_dtype": "pass arrays of one dtype, as .astype(dtype) makes them",
        "new_scalar": "pass numbers in one way, such as jnp.asarray(value, dtype)",
    })
