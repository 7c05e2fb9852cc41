#include "app/session/shell_words.hpp"

#include <array>
#include <cstdio>

#include <gtest/gtest.h>

namespace keyscope::session {
namespace {

// What a shell makes of the words: each in brackets.
std::string read_by_shell(const std::string& words) {
  FILE* pipe =
      popen(("printf '[%s]' " + words).c_str(), "r");  // NOLINT(cert-env33-c): the shell is the point
  std::string text;
  std::array<char, 256> part{};
  for (std::size_t n = 0; (n = std::fread(part.data(), 1, part.size(), pipe)) > 0;)
    text.append(part.data(), n);
  pclose(pipe);
  return text;
}

TEST(ShellWords, PlainWordsStayAsTheyAre) {
  EXPECT_EQ(quote_words({"keyscope", "--layer", "3", "a/b-c_d.h5"}), "keyscope --layer 3 a/b-c_d.h5");
  EXPECT_EQ(quote_words({}), "");
}

TEST(ShellWords, AShellReadsThemBack) {
  const std::vector<std::string> words{"",        "two words", "it's",      "$HOME `id` $(id)",
                                       "a\"b\\c", "*?[x]",     "line\nend", "~/x;y & z|",
                                       "größe",   "'",         "''"};
  std::string expected;
  for (const std::string& word : words) {
    expected.append("[").append(word).append("]");
    EXPECT_EQ(read_by_shell(quote_word(word)), "[" + word + "]");
  }
  EXPECT_EQ(read_by_shell(quote_words(words)), expected);
}

}  // namespace
}  // namespace keyscope::session
