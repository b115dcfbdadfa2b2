// torch_pch.h: what nearly every file of capture/ and runtime/ includes; precompiled, because torch's headers cost
// 20 s.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>
