#include <doctest/doctest.h>

#include "support/names.h"

using namespace braze;

TEST_CASE("the words of a path of Python make a name") {
  CHECK(words_of("batch['ids'][0]", '.') == "batch.ids.0");
  CHECK(words_of("batch['ids'][0]", '_') == "batch_ids_0");
  CHECK(words_of("a__b", '_') == "a__b");    // Underscores of a word stay,
  CHECK(words_of("a_['b']", '_') == "a_b");  // but none is added behind one.
  CHECK(words_of("['x']", '.') == "x");
  CHECK(words_of("<lambda>", '.') == "lambda");
  CHECK(words_of("[]", '.').empty());
}
