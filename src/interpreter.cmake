# braze's evaluator of Python frames: needs CPython alone, so that it builds in seconds. Written for the frames and
# opcodes of CPython 3.11 and 3.12; on other versions _C comes without it. Sources named *_312.cpp are for that version.
if(Python_VERSION VERSION_GREATER_EQUAL 3.13)
  return()
endif()
string(REPLACE "." "" this_version "${Python_VERSION_MAJOR}.${Python_VERSION_MINOR}")
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/python/interpreter/*.cpp)
list(FILTER sources EXCLUDE REGEX "standalone\\.cpp$")
file(GLOB watch CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/python/interpreter/watch/*.cpp)
foreach(version 311 312)
  if(NOT version EQUAL this_version)
    list(FILTER sources EXCLUDE REGEX "_${version}\\.cpp$")
    list(FILTER watch EXCLUDE REGEX "_${version}\\.cpp$")
  endif()
endforeach()
add_library(braze_interpreter OBJECT ${sources} ${CMAKE_CURRENT_SOURCE_DIR}/python/interpreter/opcode_tables.c)
target_include_directories(braze_interpreter PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_include_directories(braze_interpreter SYSTEM PRIVATE ${Python_INCLUDE_DIRS} ${Python_INCLUDE_DIRS}/internal)
set_target_properties(braze_interpreter PROPERTIES C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden)
target_compile_definitions(_C PRIVATE BRAZE_INTERPRETER)
target_link_libraries(_C PRIVATE braze_interpreter)
# What watches it, and collects guards.
target_sources(_C PRIVATE ${watch})
# Functions that are captured, guarded and replayed.
file(GLOB compile CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/python/compile/*.cpp)
target_sources(_C PRIVATE ${compile})
set_source_files_properties(${watch} PROPERTIES SKIP_PRECOMPILE_HEADERS ON
  INCLUDE_DIRECTORIES "${Python_INCLUDE_DIRS};${Python_INCLUDE_DIRS}/internal")

# The same as a module of its own, for quick turns: ninja _interpreter.
Python_add_library(_interpreter MODULE EXCLUDE_FROM_ALL ${CMAKE_CURRENT_SOURCE_DIR}/python/interpreter/standalone.cpp)
target_link_libraries(_interpreter PRIVATE braze_interpreter)
