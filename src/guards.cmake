# python/guards: part of _C. Most of it knows CPython alone and compiles in seconds without torch's precompiled headers.
file(GLOB guards CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/python/guards/*.cpp)
target_sources(_C PRIVATE ${guards})
list(FILTER guards EXCLUDE REGEX "/(kernels|tensor_guards|torch_state|saved_tensor_hooks|bindings)\\.cpp$")
set_source_files_properties(${guards} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
