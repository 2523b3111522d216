#pragma once
// What: `simbridge decimate`: one PCD file through a decimator into another.   Owner: main.
// Threads: one.
#include "simbridge/client/quality.h"

#include <string>

namespace simbridge::app {

struct DecimateOptions {
  std::string in, out;  // PCD files; out is binary
  client::QualityWords quality;
  std::string implementation = "cpu";  // or pcl, where this program was built with it
};

/// An exit code, after it has told on standard output what became of the cloud, or on standard
/// error what was wrong.
int decimate(const DecimateOptions& options);

}  // namespace simbridge::app
