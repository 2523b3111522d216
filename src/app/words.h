#pragma once
// What: what CLI11 cannot be told of a command line.   Owner: nobody, functions.   Threads: any.
#include <string>
#include <vector>

namespace simbridge::app {

/// After --history the words run on into the globs: `--history last '**'`. Leaves in words what
/// belongs to history (its first word, and after `from` what looks like a position) and puts the
/// rest before globs.
void split_history(std::vector<std::string>& words, std::vector<std::string>& globs);

/// CLI11 takes "[a,b]" for two words, "[a]" for "a", and has no switch for it. A word that looks
/// like that is hidden from it by a mark in front, which comes off before anybody sees the word.
[[nodiscard]] std::vector<std::string> with_hidden_brackets(std::vector<std::string> words);
/// Takes the mark off, where there is one. The answer is empty: CLI11 asks it like a check.
std::string show_brackets(std::string& word);

}  // namespace simbridge::app
