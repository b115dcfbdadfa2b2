// braze/export.h: marks what leaves the library.
#pragma once

#define BRAZE_API __attribute__((visibility("default")))
