#pragma once
// What: protobuf without its report on each string that is not UTF-8; the tests send thousands.
// Owner: the test, for its scope.   Threads: one.
#include <google/protobuf/stubs/logging.h>

namespace simbridge::wire::test {

class QuietProtobuf {
 public:
  QuietProtobuf() : before_(google::protobuf::SetLogHandler(nullptr)) {}
  ~QuietProtobuf() { google::protobuf::SetLogHandler(before_); }
  QuietProtobuf(const QuietProtobuf&) = delete;
  QuietProtobuf& operator=(const QuietProtobuf&) = delete;

 private:
  google::protobuf::LogHandler* before_;
};

}  // namespace simbridge::wire::test
