#pragma once
// What: the one thing of the command line that CLI11 cannot tell apart.   Owner: nobody.   Threads:
// any.
#include <string>
#include <vector>

namespace simbridge::app {

/// After --history the words run on into the globs: `--history last '**'`. Leaves in words what
/// belongs to history (its first word, and after `from` what looks like a position) and puts the
/// rest before globs.
void split_history(std::vector<std::string>& words, std::vector<std::string>& globs);

}  // namespace simbridge::app
