#include "app/validation/html_text.hpp"

#include <gtest/gtest.h>

namespace keyscope::validation {
namespace {

TEST(HtmlText, MarkupIsText) {
  EXPECT_EQ(html_text("<b a=\"1\" c='2'>&amp;"), "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;amp;");
}

TEST(HtmlText, WhatAPageCannotHoldIsReplaced) {
  EXPECT_EQ(html_text(std::string_view("a\0b\nc\x7F", 6)), "a b c ");
  EXPECT_EQ(html_text("caf\xC3\xA9 \xFF!"), "café \xEF\xBF\xBD!");
}

// RFC 4648, section 10.
TEST(HtmlText, DataUrlsAreBase64) {
  EXPECT_EQ(data_url("text/plain", ""), "data:text/plain;base64,");
  EXPECT_EQ(data_url("text/plain", "f"), "data:text/plain;base64,Zg==");
  EXPECT_EQ(data_url("text/plain", "fooba"), "data:text/plain;base64,Zm9vYmE=");
  EXPECT_EQ(data_url("text/plain", "foobar"), "data:text/plain;base64,Zm9vYmFy");
}

}  // namespace
}  // namespace keyscope::validation
