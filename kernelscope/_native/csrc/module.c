#include <Python.h>

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "kernelscope._native._core",
};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
