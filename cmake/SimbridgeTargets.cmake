# What every own target shares: language, warnings, sanitizers; and the functions that make targets.
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
find_package(Threads REQUIRED)
find_program(SIMBRIDGE_CCACHE ccache)
if(SIMBRIDGE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${SIMBRIDGE_CCACHE}")
endif()

add_library(simbridge_flags INTERFACE)
target_compile_features(simbridge_flags INTERFACE cxx_std_23)
target_link_libraries(simbridge_flags INTERFACE Threads::Threads)
if(SIMBRIDGE_SANITIZE)
  target_compile_options(simbridge_flags INTERFACE -fsanitize=${SIMBRIDGE_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(simbridge_flags INTERFACE -fsanitize=${SIMBRIDGE_SANITIZE})
endif()
if(SIMBRIDGE_COVERAGE)
  target_compile_options(simbridge_flags INTERFACE --coverage)
  target_link_options(simbridge_flags INTERFACE --coverage)
endif()
if(SIMBRIDGE_FUZZ)
  target_compile_options(simbridge_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(simbridge_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

add_library(simbridge_warnings INTERFACE)
target_compile_options(simbridge_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual
  -Wimplicit-fallthrough -Wextra-semi -Wno-missing-field-initializers)
# g++ 12 sees overlapping copies in plain assignments to std::string once it inlines (GCC bug 105651).
target_compile_options(simbridge_warnings INTERFACE
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<NOT:$<CONFIG:Debug>>>:-Wno-restrict>)
# Under its sanitizers g++ 12 loses track of what std::function's copies initialise (GCC bug 105562).
if(SIMBRIDGE_SANITIZE)
  target_compile_options(simbridge_warnings INTERFACE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()
if(SIMBRIDGE_WERROR)
  target_compile_options(simbridge_warnings INTERFACE -Werror)
endif()
if(SIMBRIDGE_THREAD_SAFETY)
  target_compile_options(simbridge_warnings INTERFACE -Wthread-safety -Werror=thread-safety)
endif()

# simbridge_module(<name> SOURCES a.cpp … [OWN base frame …] [FOREIGN target …])
# OWN modules are visible to users of this one; FOREIGN libraries stay inside (headers in sources only).
function(simbridge_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;OWN;FOREIGN" ${ARGN})
  add_library(simbridge_${name} STATIC ${ARG_SOURCES})
  target_include_directories(simbridge_${name}
    PUBLIC "${PROJECT_SOURCE_DIR}/include" PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(simbridge_${name} PUBLIC simbridge_flags PRIVATE simbridge_warnings ${ARG_FOREIGN})
  foreach(own ${ARG_OWN})
    target_link_libraries(simbridge_${name} PUBLIC simbridge_${own})
  endforeach()
endfunction()

# What a label or a kind of target needs built: unit_tests, concurrency_tests, fuzz_targets, …
# A sanitizer or fuzz run builds these and no more.
function(simbridge_aggregate aggregate)
  if(NOT TARGET ${aggregate})
    add_custom_target(${aggregate})
  endif()
  if(ARGN)
    add_dependencies(${aggregate} ${ARGN})
  endif()
endfunction()
foreach(label unit protocol concurrency system soak)
  simbridge_aggregate(${label}_tests)
endforeach()

# simbridge_test(<name> SOURCES … LIBS simbridge_frame … LABELS unit;concurrency [TIMEOUT s] [SERIAL])
# One Catch2 binary. Every label names what a preset selects: unit, protocol, concurrency, system, soak.
# SERIAL: it measures time or memory and runs alone.
function(simbridge_test name)
  cmake_parse_arguments(ARG "SERIAL" "TIMEOUT" "SOURCES;LIBS;LABELS;ARGS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES} $<TARGET_OBJECTS:simbridge_catch_main>)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/test")
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} simbridge_warnings simbridge_flags Catch2::Catch2)
  add_test(NAME ${name} COMMAND ${name} ${ARG_ARGS})
  simbridge_test_properties(${name} "${ARG_LABELS}" "${ARG_TIMEOUT}" "${ARG_SERIAL}" ${name})
endfunction()

# simbridge_python_test(<name> SCRIPT file [ARGS …] LABELS … [NEEDS target …] [TIMEOUT s] [SERIAL])
# A test from outside, with Debian's Python. NEEDS names what must be built before it can run.
set(SIMBRIDGE_PYTHON /usr/bin/python3)
function(simbridge_python_test name)
  cmake_parse_arguments(ARG "SERIAL" "TIMEOUT;SCRIPT" "ARGS;LABELS;NEEDS" ${ARGN})
  add_test(NAME ${name} COMMAND ${SIMBRIDGE_PYTHON} -B "${CMAKE_CURRENT_SOURCE_DIR}/${ARG_SCRIPT}" ${ARG_ARGS})
  simbridge_test_properties(${name} "${ARG_LABELS}" "${ARG_TIMEOUT}" "${ARG_SERIAL}" ${ARG_NEEDS})
endfunction()

function(simbridge_test_properties name labels timeout serial)
  if(NOT labels)
    message(FATAL_ERROR "test ${name} has no label, so no preset would run it on purpose")
  endif()
  if(NOT timeout)
    set(timeout 120)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${timeout})
  if(serial)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
  foreach(label ${labels})
    simbridge_aggregate(${label}_tests ${ARGN})
  endforeach()
endfunction()

# simbridge_fuzz(<name> SOURCES … LIBS …): a libFuzzer target, only under the fuzz preset.
# scripts/fuzz-smoke.sh runs every program of the folder fuzz/ of the build; a seed corpus, where there
# is one, stands in test/fuzz/corpus/<name>/.
function(simbridge_fuzz name)
  if(NOT SIMBRIDGE_FUZZ)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/test")
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} simbridge_warnings)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fuzz")
  simbridge_aggregate(fuzz_targets ${name})
  # The list of this configuration, so that a program left over from an older one is not run.
  get_property(names GLOBAL PROPERTY SIMBRIDGE_FUZZ_TARGETS)
  list(APPEND names ${name})
  set_property(GLOBAL PROPERTY SIMBRIDGE_FUZZ_TARGETS ${names})
  list(JOIN names "\n" lines)
  file(WRITE "${PROJECT_BINARY_DIR}/fuzz_targets.txt" "${lines}\n")
endfunction()
