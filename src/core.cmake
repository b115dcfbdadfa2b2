# braze_core: support target ir passes loops codegen device compile cache. Knows neither torch nor Python.
if(BRAZE_CORE_PREFIX)
  add_library(braze_core SHARED IMPORTED GLOBAL)
  set_target_properties(braze_core PROPERTIES
    IMPORTED_LOCATION ${BRAZE_CORE_PREFIX}/libbraze_core.so
    INTERFACE_INCLUDE_DIRECTORIES ${CMAKE_CURRENT_SOURCE_DIR})
  return()
endif()

# GLOBAL: the tests link it too.
find_package(LLVM 19.1 REQUIRED CONFIG GLOBAL PATHS /usr/lib/llvm-19 NO_DEFAULT_PATH)

# One static library a folder, so that tests of one link no other.
function(braze_part name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  add_library(braze_${name} OBJECT ${sources})
  target_include_directories(braze_${name} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
endfunction()
braze_part(support)
braze_part(target)
braze_part(ir)
braze_part(passes)
braze_part(loops)
braze_part(cache)
braze_part(codegen)
braze_part(device)
braze_part(compile)

target_include_directories(braze_codegen SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})
target_compile_definitions(braze_codegen PRIVATE ${LLVM_DEFINITIONS})
llvm_map_components_to_libnames(BRAZE_LLVM_LIBS core support analysis target targetparser mc object passes
  scalaropts instcombine transformutils codegen x86codegen x86desc x86info nvptxcodegen nvptxdesc nvptxinfo asmprinter selectiondag)

# Debian's LLVMSupport names libz3, zlib, zstd and librt as shared libraries. Nothing that braze reaches needs them
# (codegen/llvm_interfaces.cpp stands in for zlib's and zstd's users), and the user's machine may lack them. The build
# id is part of the key of cached machine code (codegen/compiler.cpp), in the library as in the tests.
set_target_properties(LLVMSupport PROPERTIES INTERFACE_LINK_LIBRARIES "LLVMDemangle;m;dl")
add_library(braze_llvm INTERFACE)
target_include_directories(braze_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
target_link_libraries(braze_llvm INTERFACE ${BRAZE_LLVM_LIBS})
target_link_options(braze_llvm INTERFACE -Wl,--build-id)

add_library(braze_core SHARED
  $<TARGET_OBJECTS:braze_support> $<TARGET_OBJECTS:braze_target> $<TARGET_OBJECTS:braze_ir> $<TARGET_OBJECTS:braze_passes>
  $<TARGET_OBJECTS:braze_loops> $<TARGET_OBJECTS:braze_cache> $<TARGET_OBJECTS:braze_codegen>
  $<TARGET_OBJECTS:braze_device> $<TARGET_OBJECTS:braze_compile>)
target_include_directories(braze_core PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
# Only braze's own symbols leave the library: another LLVM in the process must not meet this one.
target_link_options(braze_core PRIVATE
  -Wl,--exclude-libs,ALL -Wl,--as-needed -Wl,--gc-sections
  -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/exports.map)
find_package(Threads REQUIRED)
target_link_libraries(braze_core PRIVATE braze_llvm Threads::Threads)
count_allocations(braze_core)
