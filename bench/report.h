#pragma once
// What: rows of a benchmark: a value, the peer's value of the same run, their ratio, the goal.
// Owner: main.   Threads: one.
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace simbridge::bench {

struct Row {
  std::string name;
  double value = 0;
  std::string unit;
  std::string peer;  // "" = none in this run, see note
  double peer_value = 0;
  std::string goal;  // as written: ">= 0.8", "<= 15 ns"
  double goal_low = 0,
         goal_high = 0;  // of the ratio, or of the value where there is no peer; 0 = open
  std::string note;

  [[nodiscard]] double ratio() const { return peer_value != 0 ? value / peer_value : 0; }
  [[nodiscard]] bool met() const {
    const double judged = peer.empty() ? value : ratio();
    return (goal_low == 0 || judged >= goal_low) && (goal_high == 0 || judged <= goal_high);
  }
};

class Report {
 public:
  void add(Row row) { rows_.push_back(std::move(row)); }
  void print() const;
  void write_json(const std::string& file) const;

 private:
  std::vector<Row> rows_;
};

inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[values.size() / 2];
}
inline double percentile(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[std::min(values.size() - 1,
                         static_cast<std::size_t>(share * static_cast<double>(values.size())))];
}

struct Settings {
  int repetitions = 5;
  double seconds = 0.5;   // of one measurement
  std::string simbridge;  // the daemon's binary
};

void decimation(const Settings& settings, Report& report);
void ring(const Settings& settings, Report& report);
void memory(const Settings& settings, Report& report);
void ingest(const Settings& settings, Report& report);
void fan_out(const Settings& settings, Report& report);
void latency(const Settings& settings, Report& report);
void idle(const Settings& settings, Report& report);
void grpc_road(const Settings& settings, Report& report);
/// Processor time of the bridge a delivery, in microseconds, by WebSocket.
double websocket_fan_out_cost(const Settings& settings,
                              std::size_t data_bytes,
                              std::size_t consumers,
                              double seconds);

}  // namespace simbridge::bench
