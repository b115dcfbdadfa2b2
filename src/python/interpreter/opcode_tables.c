// python/interpreter/opcode_tables.c: CPython's opcode tables, which its library does not export. Its header
// defines them with designated array initialisers, so this file is C.
#define Py_BUILD_CORE
#define NEED_OPCODE_TABLES
#include <Python.h>
#include <internal/pycore_opcode.h>

const uint8_t* const braze_plain_opcode = _PyOpcode_Deopt;
const uint8_t* const braze_cache_units = _PyOpcode_Caches;
