# braze_torch (capture, runtime, api) and the Python module _C. Torch is found through the Python that builds; its own CMake
# package is not used, because it would look for CUDA's toolkit.
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
execute_process(
  COMMAND ${Python_EXECUTABLE} -c "import torch, os, pybind11; print(os.path.dirname(torch.__file__) + ';' + torch.__version__ + ';' + pybind11.get_include(), end='')"
  OUTPUT_VARIABLE BRAZE_TORCH_FACTS RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "braze needs torch and pybind11 in ${Python_EXECUTABLE}")
endif()
list(GET BRAZE_TORCH_FACTS 0 TORCH_DIR)
list(GET BRAZE_TORCH_FACTS 1 TORCH_VERSION)
list(GET BRAZE_TORCH_FACTS 2 PYBIND11_INCLUDE)

add_library(braze_libtorch INTERFACE)
target_include_directories(braze_libtorch SYSTEM INTERFACE
  ${TORCH_DIR}/include ${TORCH_DIR}/include/torch/csrc/api/include)
# GCC 12 takes the unused inline storage of a c10::SmallVector that was moved for one that is read.
target_compile_options(braze_libtorch INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
target_compile_definitions(braze_libtorch INTERFACE BRAZE_TORCH_VERSION="${TORCH_VERSION}")
target_link_libraries(braze_libtorch INTERFACE
  ${TORCH_DIR}/lib/libtorch_cpu.so ${TORCH_DIR}/lib/libc10.so)

file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/capture/*.cpp ${CMAKE_CURRENT_SOURCE_DIR}/runtime/*.cpp
     ${CMAKE_CURRENT_SOURCE_DIR}/runtime/autograd/*.cpp
     ${CMAKE_CURRENT_SOURCE_DIR}/runtime/device/*.cpp ${CMAKE_CURRENT_SOURCE_DIR}/runtime/device/*/*.cpp)
add_library(braze_torch SHARED ${sources})
target_include_directories(braze_torch PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(braze_torch PUBLIC braze_core braze_libtorch)
# at::parallel_for is a template over OpenMP: it must be compiled with it, and share torch's own thread pool. The wheel
# carries its libgomp in lib/ or in torch.libs/; a second one in the process would be a second pool.
target_compile_options(braze_torch PRIVATE -fopenmp)
file(GLOB BRAZE_GOMP ${TORCH_DIR}/lib/libgomp*.so* ${TORCH_DIR}/../torch.libs/libgomp*.so*)
if(BRAZE_GOMP)
  list(GET BRAZE_GOMP 0 BRAZE_GOMP)
  target_link_libraries(braze_torch PRIVATE ${BRAZE_GOMP})
else()
  target_link_libraries(braze_torch PRIVATE gomp)
endif()
target_precompile_headers(braze_torch PRIVATE <torch_pch.h>)
count_allocations(braze_torch)
# Chosen at run time; they include nothing, so that no inline function of others is compiled for these processors.
foreach(level avx2:x86-64-v3 avx512:x86-64-v4)
  string(REPLACE ":" ";" level ${level})
  list(GET level 0 isa)
  list(GET level 1 processor)
  set_source_files_properties(runtime/small_matmul_${isa}.cpp runtime/panel_matmul_${isa}.cpp runtime/attention_rows_${isa}.cpp
    PROPERTIES SKIP_PRECOMPILE_HEADERS ON
    COMPILE_OPTIONS "-march=${processor};-O3;-ffp-contract=fast")
endforeach()

# The C++ face. The same headers as its users: include/ alone is public.
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/api/*.cpp)
add_library(braze_api OBJECT ${sources})
target_include_directories(braze_api PUBLIC ${CMAKE_SOURCE_DIR}/include PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(braze_api PRIVATE braze_libtorch)
target_sources(braze_torch PRIVATE $<TARGET_OBJECTS:braze_api>)

file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/python/*.cpp)
Python_add_library(_C MODULE WITH_SOABI ${sources})
target_include_directories(_C SYSTEM PRIVATE ${PYBIND11_INCLUDE})
target_link_libraries(_C PRIVATE braze_torch ${TORCH_DIR}/lib/libtorch_python.so)
target_precompile_headers(_C PRIVATE <python_pch.h>)
count_allocations(_C)

# The package is importable from the source tree: libraries go beside python/braze/__init__.py.
set(BRAZE_PACKAGE_DIR ${CMAKE_SOURCE_DIR}/python/braze CACHE PATH "where the libraries go; another folder keeps two build trees apart")
set(package ${BRAZE_PACKAGE_DIR})
if(NOT SKBUILD)
  set_target_properties(_C PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${package})
  set_target_properties(braze_torch PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${package}/lib)
  if(TARGET braze_support)
    set_target_properties(braze_core PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${package}/lib)
  endif()
endif()
set_target_properties(braze_torch PROPERTIES BUILD_RPATH "$ORIGIN")
set_target_properties(_C PROPERTIES BUILD_RPATH "$ORIGIN/lib" INSTALL_RPATH "$ORIGIN/lib" CXX_VISIBILITY_PRESET hidden)

# Read by python/braze/_load.py before the module is loaded.
if(SKBUILD)
  set(version_file ${CMAKE_BINARY_DIR}/torch_version.txt)
else()
  set(version_file ${package}/lib/torch_version.txt)
endif()
file(WRITE ${version_file} "${TORCH_VERSION}\n")

# The wheel holds the Python package with everything in it. `cmake --install build --prefix ...` installs the C++ face
# alone: lib/, include/ and share/cmake/ below the prefix. Both are found by find_package(braze).
if(SKBUILD)
  set(root braze)
  install(TARGETS _C LIBRARY DESTINATION ${root})
  set(rpath "$ORIGIN:$ORIGIN/../../torch/lib:$ORIGIN/../../torch.libs")
else()
  set(root .)
  set(rpath "$ORIGIN:${TORCH_DIR}/lib:${TORCH_DIR}/../torch.libs")
endif()
set_target_properties(braze_torch PROPERTIES INSTALL_RPATH "${rpath}")
install(TARGETS braze_torch LIBRARY DESTINATION ${root}/lib)
if(TARGET braze_support)
  install(TARGETS braze_core LIBRARY DESTINATION ${root}/lib)
else()
  install(FILES ${BRAZE_CORE_PREFIX}/libbraze_core.so DESTINATION ${root}/lib)
endif()
install(FILES ${version_file} DESTINATION ${root}/lib)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/braze DESTINATION ${root}/include)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/brazeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_SOURCE_DIR}/cmake/brazeConfig.cmake ${CMAKE_BINARY_DIR}/brazeConfigVersion.cmake
  DESTINATION ${root}/share/cmake/braze)
