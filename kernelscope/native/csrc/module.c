/* kernelscope.native._core: the recorder. */
#include "core.h"

static int execute(PyObject *module) {
    bool counts = ks_counter_ready(), reads_frames = ks_frames_ready();
    if (ks_names_ready() < 0 || PyType_Ready(&ks_log_type) < 0 || PyType_Ready(&ks_state_type) < 0 ||
        PyType_Ready(&ks_hook_type) < 0 || PyType_Ready(&ks_collections_type) < 0 ||
        PyType_Ready(&ks_calls_type) < 0 || PyType_Ready(&ks_operators_type) < 0)
        return -1;
    if (PyModule_AddObjectRef(module, "Ring", (PyObject *)&ks_log_type) < 0 ||
        PyModule_AddObjectRef(module, "State", (PyObject *)&ks_state_type) < 0 ||
        PyModule_AddObjectRef(module, "Hook", (PyObject *)&ks_hook_type) < 0 ||
        PyModule_AddObjectRef(module, "Collections", (PyObject *)&ks_collections_type) < 0 ||
        PyModule_AddObjectRef(module, "CallSites", (PyObject *)&ks_calls_type) < 0 ||
        PyModule_AddObjectRef(module, "Operators", (PyObject *)&ks_operators_type) < 0)
        return -1;
#ifdef KS_TAKES_FUNCTIONS
    PyObject *takes = Py_True;
#else
    PyObject *takes = Py_False;
#endif
    if (PyModule_AddObjectRef(module, "TAKES_FUNCTIONS", takes) < 0 ||
        PyModule_AddObjectRef(module, "READS_FRAMES", reads_frames ? Py_True : Py_False) < 0 ||
        PyModule_AddIntConstant(module, "SLOT_BYTES", sizeof(ks_slot)) < 0 ||
        PyModule_AddIntConstant(module, "LAYOUT_VERSION", KS_VERSION) < 0 ||
        PyModule_AddIntConstant(module, "MOST_FRAMES", KS_MOST_FRAMES) < 0 ||
        PyModule_AddStringConstant(module, "CLOCK", counts ? "tsc" : "clock_gettime") < 0)
        return -1;
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
#if PY_VERSION_HEX >= 0x030c0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030d0000
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static PyObject *frames(PyObject *Py_UNUSED(module), PyObject *publicly) {
    int is_public = PyObject_IsTrue(publicly);
    return is_public < 0 ? NULL : ks_frames(is_public);
}

static PyMethodDef functions[] = {
    {"frames", frames, METH_O,
     "frames($module, publicly, /)\n--\n\n"
     "Code objects and offsets of the calling thread's frames, innermost first: as hooks read them, or with CPython's\n"
     "public functions."},
    {"before_end", ks_before_end, METH_VARARGS,
     "before_end($module, function, patience_s, /)\n--\n\n"
     "Have a function called, with the signal's number, before SIGTERM or SIGHUP ends the process, which is at the\n"
     "latest `patience_s` seconds later; with None nothing is called. A signal that has a handler is left to that."},
    {"drain", ks_drain, METH_VARARGS,
     "drain($module, decode, count, times, values, clear, fields, metrics, stop, pause_s, /)\n--\n\n"
     "Call CUPTI's functions, each given with its structure's address, until the byte at `stop` is set, and once after\n"
     "that; return the samples' starts, ends and metrics, a result of CUPTI's, how often the GPU's buffer was full, and\n"
     "how often CUPTI's. `fields` are addresses in the structures; the interpreter's lock is not held."},
    {"taken", ks_taken, METH_NOARGS, "taken($module, /)\n--\n\nThe functions whose calls run through hooks."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "kernelscope.native._core",
    .m_doc = "The recorder: launches in slots of 64 bytes, and the hooks that write them.",
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
