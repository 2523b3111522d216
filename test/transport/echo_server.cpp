// Sends every message back, over the product's own listener, connection and codec; Autobahn's cases
// judge it (autobahn_test.py). Prints the port, ends when its standard input does.
#include "simbridge/metrics/instruments.h"
#include "simbridge/metrics/metrics.h"
#include "simbridge/transport/io_pool.h"
#include "transport/echo_door.h"
#include "transport/ws_accept.h"

#include <iostream>
#include <string>

int main() {
  using namespace simbridge;  // NOLINT(google-build-using-namespace): one function
  metrics::Registry registry;
  metrics::TransportMetrics transport_metrics(registry);
  transport::IoPool pool(2, transport_metrics.io_threads);
  test::EchoDoor door;
  auto listener = transport::ws::listen({.port = 0}, pool, door, transport_metrics);
  if (!listener) {
    std::cerr << listener.error().detail << '\n';
    return 1;
  }
  std::cout << (*listener)->port()
            << std::endl;  // NOLINT(performance-avoid-endl): the reader waits for it
  std::string line;
  while (std::getline(std::cin, line)) {
  }
  return 0;
}
