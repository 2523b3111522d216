# Foreign libraries, all from Debian 12 (scripts/install-deps.sh). Imported targets are SYSTEM includes.
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(Protobuf REQUIRED)
find_package(Boost 1.74 REQUIRED)
find_package(prometheus-cpp REQUIRED COMPONENTS core)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(yaml-cpp REQUIRED)
add_library(simbridge_yaml INTERFACE)
target_link_libraries(simbridge_yaml INTERFACE yaml-cpp)

# gRPC without TLS, for now: half the code to load. Its CMake file says its version to nobody.
find_package(gRPC CONFIG QUIET REQUIRED)
add_library(simbridge_grpc INTERFACE)
target_link_libraries(simbridge_grpc INTERFACE gRPC::grpc++_unsecure)

# Asio and Beast, header only; no coroutines (docs/decisions.md), no deprecated names.
add_library(simbridge_asio INTERFACE)
target_link_libraries(simbridge_asio INTERFACE Boost::headers Threads::Threads)
target_compile_definitions(simbridge_asio INTERFACE
  BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_DISABLE_CONCEPTS BOOST_BEAST_USE_STD_STRING_VIEW)
if(SIMBRIDGE_SANITIZE MATCHES "thread")
  # TSan does not model fences, and g++ says so. Asio's stand beside locks that order the same things.
  target_compile_definitions(simbridge_asio INTERFACE BOOST_ASIO_DISABLE_FENCED_BLOCK)
endif()
