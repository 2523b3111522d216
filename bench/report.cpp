#include "report.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>

namespace simbridge::bench {

void Report::print() const {
  fmt::print(
      "\n| what | value | unit | peer | peer's | ratio | goal | met "
      "|\n|---|---|---|---|---|---|---|---|\n");
  for (const Row& row : rows_) {
    const bool peer = !row.peer.empty();
    fmt::print("| {} | {:.3g} | {} | {} | {} | {} | {} | {} |\n",
               row.name,
               row.value,
               row.unit,
               peer               ? row.peer
               : row.note.empty() ? "-"
                                  : row.note,
               peer ? fmt::format("{:.3g}", row.peer_value) : "-",
               peer ? fmt::format("{:.2f}", row.ratio()) : "-",
               row.goal.empty() ? "-" : row.goal,
               row.goal.empty() ? "-"
               : row.met()      ? "yes"
                                : "no");
  }
  (void)std::fflush(stdout);
}

void Report::write_json(const std::string& file) const {
  nlohmann::json all = nlohmann::json::array();
  for (const Row& row : rows_) {
    nlohmann::json one{
        {"name", row.name}, {"value", row.value}, {"unit", row.unit}, {"peer", row.peer}};
    one["peer_value"] = row.peer.empty() ? nlohmann::json() : nlohmann::json(row.peer_value);
    one["ratio"] = row.peer.empty() ? nlohmann::json() : nlohmann::json(row.ratio());
    one["goal"] = row.goal;
    one["met"] = row.goal.empty() ? nlohmann::json() : nlohmann::json(row.met());
    one["note"] = row.note;
    all.push_back(std::move(one));
  }
  std::ofstream(file) << all.dump(1) << '\n';
}

}  // namespace simbridge::bench
