#pragma once
// What: the pool's queue, for the sources of this module.   Owner: IoPool.   Threads: any.
#include "simbridge/transport/io_pool.h"

namespace boost::asio {
class io_context;  // NOLINT(readability-identifier-naming): Asio's name
}

namespace simbridge::transport {

[[nodiscard]] boost::asio::io_context& context_of(IoPool& pool);

}  // namespace simbridge::transport
