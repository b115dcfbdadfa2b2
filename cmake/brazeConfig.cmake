# find_package(braze): the target braze::braze, with libtorch's headers and libraries.
#
#   find_package(Torch REQUIRED)     # CMAKE_PREFIX_PATH: python -c "import torch; print(torch.utils.cmake_prefix_path)"
#   find_package(braze REQUIRED)     # and:               python -c "import braze; print(braze.cmake_prefix_path)"
#   target_link_libraries(app PRIVATE braze::braze)
include(CMakeFindDependencyMacro)
if(NOT Torch_FOUND)
  find_dependency(Torch)
endif()

get_filename_component(BRAZE_ROOT "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

# Another libtorch would end in unresolved symbols, or worse.
file(STRINGS "${BRAZE_ROOT}/lib/torch_version.txt" BRAZE_TORCH_VERSION LIMIT_COUNT 1)
string(REGEX MATCH "^[0-9]+\\.[0-9]+" BRAZE_TORCH_WANTED "${BRAZE_TORCH_VERSION}")
string(REGEX MATCH "^[0-9]+\\.[0-9]+" BRAZE_TORCH_FOUND "${Torch_VERSION}")
if(NOT BRAZE_TORCH_WANTED STREQUAL BRAZE_TORCH_FOUND)
  set(braze_FOUND FALSE)
  set(braze_NOT_FOUND_MESSAGE
    "braze in ${BRAZE_ROOT} was built for torch ${BRAZE_TORCH_VERSION}, and torch ${Torch_VERSION} was found")
  return()
endif()

if(NOT TARGET braze::braze)
  add_library(braze::core SHARED IMPORTED)
  set_target_properties(braze::core PROPERTIES IMPORTED_LOCATION "${BRAZE_ROOT}/lib/libbraze_core.so")
  add_library(braze::braze SHARED IMPORTED)
  set_target_properties(braze::braze PROPERTIES
    IMPORTED_LOCATION "${BRAZE_ROOT}/lib/libbraze_torch.so"
    IMPORTED_LINK_DEPENDENT_LIBRARIES braze::core
    INTERFACE_INCLUDE_DIRECTORIES "${BRAZE_ROOT}/include"
    INTERFACE_LINK_LIBRARIES "${TORCH_LIBRARIES}"
    INTERFACE_COMPILE_OPTIONS "${TORCH_CXX_FLAGS}"
    INTERFACE_COMPILE_FEATURES cxx_std_20)
endif()
