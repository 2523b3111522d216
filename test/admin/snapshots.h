#pragma once
// What: providers with one row of everything, every figure different.
#include "simbridge/admin/server.h"

namespace simbridge::admin {

inline Snapshots example_snapshots() {
  return {
      .readiness = [] { return Readiness{.ready = true, .why = "ready"}; },
      .metrics = [] { return std::string("# HELP x y\nx 1\n"); },
      .channels =
          [] {
            return std::vector<ChannelRow>{{.name = "lidar_front/points",
                                            .received = 10,
                                            .rejected = 1,
                                            .duplicate = 2,
                                            .published = 7,
                                            .kept_frames = 5,
                                            .kept_bytes = 1ULL << 40U}};
          },
      .subscriptions =
          [] {
            return std::vector<SubscriptionRow>{{.session = 3,
                                                 .id = 1,
                                                 .channel = "lidar_front/points",
                                                 .promised = 20,
                                                 .delivered = 9,
                                                 .skipped = 4,
                                                 .waiting = 1,
                                                 .lost = 6,
                                                 .gaps = {{"EVICTED", 4}, {"QUEUE", 2}}}};
          },
      .sessions =
          [] {
            return std::vector<SessionRow>{{.id = 3,
                                            .name = "hall",
                                            .agent = "test/1",
                                            .transport = "websocket",
                                            .address = "127.0.0.1:1",
                                            .age_s = 1.5,
                                            .channels = 1,
                                            .subscriptions = 2,
                                            .frames_in = 10,
                                            .bytes_in = 11,
                                            .frames_out = 12,
                                            .bytes_out = 13,
                                            .outbox_bytes = 14}};
          },
      .limits =
          [] { return Limits{.budget_bytes = 1ULL << 30U, .io_threads = 2, .accept_rate = 0.5}; },
  };
}

}  // namespace simbridge::admin
