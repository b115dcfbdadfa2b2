// braze/braze.h: the whole C++ face of braze. Needs libtorch's C++ frontend (torch/nn); braze/compile.h does not.
#pragma once

#include "braze/compile.h"
#include "braze/module.h"
#include "braze/program.h"
