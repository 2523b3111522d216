#pragma once
// What: what must hold for every cloud that the PCD reader accepts: written in any form and read
// again it is the same. Shared by the unit test and the fuzz target.   Threads: any.
#include "simbridge/client/pcd.h"

#include <string>
#include <utility>

namespace simbridge::test {

using client::format_pcd;
using client::parse_pcd;
using client::PcdForm;
using client::PointCloudData;

inline std::string form_fault(const PointCloudData& cloud, PcdForm form) {
  const auto file = format_pcd(cloud, form);
  if (!file) return "cannot be written: " + file.error().detail;
  const auto again = parse_pcd(*file);
  if (!again) return "what was written does not read: " + again.error().detail;
  if (again->fields != cloud.fields) return "other fields";
  if (again->width != cloud.width || again->height != cloud.height) return "another size";
  if (!(again->viewpoint == cloud.viewpoint)) return "another viewpoint";
  if (again->is_dense != cloud.is_dense) return "another density";
  // Text keeps the value of a NaN, not its bits; so the second writing is what must agree.
  if (form != PcdForm::kAscii && again->data != cloud.data) return "other data";
  if (form == PcdForm::kAscii && format_pcd(*again, form).value_or("") != *file)
    return "other text";
  return "";
}

/// Empty, or what went wrong in which form.
inline std::string roundtrip_fault(const PointCloudData& cloud) {
  for (const auto& [form, name] : {std::pair{PcdForm::kAscii, "ascii: "},
                                   std::pair{PcdForm::kBinary, "binary: "},
                                   std::pair{PcdForm::kCompressed, "compressed: "}}) {
    if (const auto fault = form_fault(cloud, form); !fault.empty()) return name + fault;
  }
  return "";
}

}  // namespace simbridge::test
