#include "pipeline/job_queue.h"

#include <catch2/catch.hpp>

#include <memory>

using simbridge::pipeline::JobQueue;

TEST_CASE("jobs come out in the order in which they went in, and none beyond the capacity goes in",
          "[pipeline][queue]") {
  JobQueue<int, 8> queue;
  CHECK_FALSE(queue.pop());
  for (int lap = 0; lap < 5; ++lap) {
    for (int i = 0; i < 8; ++i) CHECK(queue.push(i));
    CHECK_FALSE(queue.push(8));
    CHECK(queue.size() == 8);
    for (int i = 0; i < 8; ++i) CHECK(queue.pop() == i);
    CHECK_FALSE(queue.pop());
    CHECK(queue.size() == 0);
  }
}

TEST_CASE("a job that was taken out leaves nothing of itself behind", "[pipeline][queue]") {
  auto life = std::make_shared<int>(1);
  JobQueue<std::shared_ptr<int>, 2> queue;
  REQUIRE(queue.push(life));
  CHECK(life.use_count() == 2);
  CHECK(queue.pop());
  CHECK(life.use_count() == 1);
}
