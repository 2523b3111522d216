#pragma once
// What: the root of the source tree, for tests that read files of it.
// A function, not a macro: the path would enter every test's command line, and a clone elsewhere
// would find nothing in the compiler cache.
#include <filesystem>

namespace simbridge::test {

std::filesystem::path source_dir();

}  // namespace simbridge::test
