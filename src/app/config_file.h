#pragma once
// What: a YAML file as a flat list of keys, with the line of each.   Owner: nobody.   Threads: any.
#include "simbridge/base/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace simbridge::app {

struct FileEntry {
  std::string key;   // nested keys joined by dots
  std::string text;  // the scalar as written
  int line = 0;      // from 1
};

/// name is for messages only. The errors' details begin with name:line where a line is at fault.
[[nodiscard]] Result<std::vector<FileEntry>> parse_config_text(const std::string& text,
                                                               const std::string& name);
[[nodiscard]] Result<std::vector<FileEntry>> read_config_file(const std::string& path);

}  // namespace simbridge::app
