// python/interpreter/entry.h: how a frame is entered and left, by version of CPython.
#pragma once

#include "python/interpreter/cpython.h"

#if PY_VERSION_HEX >= 0x030C0000
#include "python/interpreter/entry_312.h"
#else
#include "python/interpreter/entry_311.h"
#endif
