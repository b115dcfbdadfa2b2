// Sizes as expressions: canonical forms as text, and the algebra against brute force over all values of the
// symbols.
#include <doctest/doctest.h>

#include <functional>
#include <random>

#include "ir/shape_env.h"
#include "ir/size_bounds.h"
#include "ir/size_code.h"
#include "ir/size_table.h"
#include "support/error.h"

using namespace braze;
using namespace braze::ir;

namespace {

/// n and m from 0, positive k and l, q a multiple of 4 plus 1.
struct Symbols {
  SizeTable table;
  Size n = table.symbol("n"), m = table.symbol("m");
  Size k = table.symbol("k", {.range = {1, SizeRange::infinity}}), l = table.symbol("l", {.range = {2, 9}});
  Size q = table.symbol("q", {.range = {1, SizeRange::infinity}, .modulus = 4, .remainder = 1});
};

int64_t value_of(Size size, std::span<const int64_t> symbols) {
  SizeCode code;
  code.add(size);
  int64_t value = 0;
  REQUIRE(code.run(symbols, {&value, 1}));
  return value;
}

}  // namespace

TEST_CASE("a constant size is a number") {
  CHECK(Size(7) + 5 == 12);
  CHECK(floor_div(Size(-7), 2) == -4);
  CHECK(mod(Size(-7), 2) == 1);
  CHECK(mod(Size(7), -2) == -1);
  CHECK(ceil_div(Size(7), 2) == 4);
  CHECK(to_text(max(Size(3), 4)) == "4");
  CHECK(sizeof(Size) == sizeof(int64_t));
  CHECK(Size(INT64_MAX).constant() == INT64_MAX);
}

TEST_CASE("expressions have one form") {
  Symbols s;
  const char* cases[][2] = {
      {"n + m - n", "m"},
      {"(n + 1)*m - m", "n*m"},
      {"(n + m)*(n - m)", "n*n - m*m"},
      {"4*n floordiv 4", "n"},
      {"(4*n + 6) floordiv 4", "n + 1"},
      {"(5*n + 7) floordiv 4", "n + (n + 3) floordiv 4 + 1"},
      {"(6*n + 3) floordiv 4", "n + (n + 1) floordiv 2"},
      {"(n floordiv 2) floordiv 3", "n floordiv 6"},
      {"(n floordiv 2 + 1) floordiv 3", "(n + 2) floordiv 6"},
      {"4*(n floordiv 4)", "n - n mod 4"},
      {"4*(n floordiv 4) floordiv 4", "n floordiv 4"},
      {"4*(n floordiv 4) + n mod 4", "n"},
      {"n*m floordiv k", "(n*m) floordiv k"},
      {"n*k floordiv k", "n"},
      {"(n*k + m*k) floordiv k", "n + m"},
      {"(n*n + 2*n + 1) floordiv (n + 1)", "n + 1"},
      {"n*k floordiv (m*k + k)", "n floordiv (m + 1)"},
      {"(n*k + 3*k) mod (5*k)", "k*((n + 3) mod 5)"},
      {"k*(n floordiv k)", "n - n mod k"},
      {"(7*n + 9) mod 4", "(3*n + 1) mod 4"},
      {"6*n mod 4", "2*(n mod 2)"},
      {"(6*n + 3) mod 4", "2*((n + 1) mod 2) + 1"},
      {"(n mod 8) mod 4", "n mod 4"},
      {"l mod 16", "l"},
      {"l floordiv 16", "0"},
      {"(l + 16) floordiv 32", "0"},
      {"q mod 4", "1"},
      {"q mod 2", "1"},
      {"(q*n + 3*n) mod 4", "0"},
      {"4*(q floordiv 4)", "q - 1"},
      {"max(n, n)", "n"},
      {"max(m, n)", "max(n, m)"},
      {"max(n, n + 1)", "n + 1"},
      {"max(n, 0)", "n"},
      {"max(n, l, 1)", "max(n, l)"},
      {"max(n + k, m + k)", "k + max(n, m)"},
      {"max(4*n, 4*m)", "4*max(n, m)"},
      {"max(max(n, m), k)", "max(n, m, k)"},
      {"min(n, m)", "min(n, m)"},
      {"min(n, n + m)", "n"},
      {"-(n)", "-n"},
      {"2*n - 2*m - 5", "2*n - 2*m - 5"},
  };
  for (const auto& [text, expected] : cases) {
    CAPTURE(text);
    const Size size = parse_size(text, s.table);
    CHECK(to_text(size) == expected);
    CHECK(parse_size(to_text(size), s.table) == size);
  }
}

TEST_CASE("a minimum is taken off as a maximum is put on") {
  Symbols s;
  const Size size = s.n - min(s.n, s.m);
  CHECK(to_text(size) == "n + max(-n, -m)");
  CHECK(parse_size(to_text(size), s.table) == size);
}

TEST_CASE("what cannot be is said") {
  Symbols s;
  CHECK_THROWS_AS(floor_div(s.n, s.m), UserError);  // m may be 0
  CHECK_THROWS_AS(mod(s.n, 0), UserError);
  CHECK_THROWS_AS(Size(INT64_MIN), UserError);
  CHECK_THROWS_AS(Size(INT64_MAX) + 1, UserError);
  CHECK_THROWS_AS(s.n * INT64_MAX * 2, UserError);
  CHECK_THROWS_AS(parse_size("n + unknown", s.table), UserError);
  CHECK_THROWS_AS(parse_size("n +", s.table), UserError);
  CHECK_THROWS_AS(parse_size("n m", s.table), UserError);
  CHECK_THROWS_AS((s.n + 1).constant(), InternalError);
  CHECK_THROWS_AS(s.table.narrow(3, {.range = {10, 20}}), UserError);  // l <= 9
}

TEST_CASE("ranges follow from those of the symbols") {
  Symbols s;
  const auto range = [&](const char* text) { return s.table.range(parse_size(text, s.table)); };
  CHECK(range("l*l - l").low == 2);  // l*(l - 1), l >= 2
  CHECK(range("k*l - l").low == 0);
  CHECK(range("3 - l") == SizeRange{-6, 1});
  CHECK(range("n mod 5") == SizeRange{0, 4});
  CHECK(range("l floordiv 4") == SizeRange{0, 2});
  CHECK(range("max(l, 5)") == SizeRange{5, 9});
  CHECK(range("n*m").low == 0);
  CHECK(range("n - m") == SizeRange{});
}

namespace {

/// Expressions at random, and what they are by plain arithmetic.
struct Random {
  using Meaning = std::function<int64_t(const std::vector<int64_t>&)>;
  struct Pair {
    Size size;
    Meaning meaning;
  };
  SizeTable& table;
  std::vector<Size> symbols;
  std::mt19937_64 engine;

  int64_t number(int64_t low, int64_t high) { return std::uniform_int_distribution(low, high)(engine); }

  Pair leaf() {
    if (number(0, 2) == 0) {
      const int64_t value = number(-4, 9);
      return {value, [value](const auto&) { return value; }};
    }
    const auto slot = static_cast<size_t>(number(0, static_cast<int64_t>(symbols.size()) - 1));
    return {symbols[slot], [slot](const auto& values) { return values[slot]; }};
  }

  Pair any(int depth) {
    if (depth == 0) return leaf();
    const Pair a = any(depth - 1), b = any(depth - 1);
    switch (number(0, 6)) {
      case 0: return {a.size + b.size, [=](const auto& v) { return a.meaning(v) + b.meaning(v); }};
      case 1: return {a.size - b.size, [=](const auto& v) { return a.meaning(v) - b.meaning(v); }};
      case 2: return {a.size * b.size, [=](const auto& v) { return a.meaning(v) * b.meaning(v); }};
      case 3: return {max(a.size, b.size), [=](const auto& v) { return std::max(a.meaning(v), b.meaning(v)); }};
      case 4: return {min(a.size, b.size), [=](const auto& v) { return std::min(a.meaning(v), b.meaning(v)); }};
      default: break;
    }
    // A divisor whose sign is known: a number, or what a range shows.
    Pair d = b;
    const SizeRange range = table.range(b.size);
    if (range.low < 1 && range.high > -1) {
      int64_t value = number(1, 8);
      if (number(0, 4) == 0) value = -value;
      d = {value, [value](const auto&) { return value; }};
    }
    const auto divided = [=](const auto& v) { return ir::floor_div(a.meaning(v), d.meaning(v)); };
    if (number(0, 1)) return {floor_div(a.size, d.size), divided};
    return {mod(a.size, d.size), [=](const auto& v) { return a.meaning(v) - d.meaning(v) * divided(v); }};
  }
};

struct Domain {
  std::vector<SymbolFacts> facts = {{.range = {0, SizeRange::infinity}},
                                    {.range = {1, 7}},
                                    {.range = {2, SizeRange::infinity}, .modulus = 2, .remainder = 0},
                                    {.range = {-3, 3}}};
  /// All values below 8 that the facts allow.
  std::vector<std::vector<int64_t>> values() const {
    std::vector<std::vector<int64_t>> all = {{}};
    for (const SymbolFacts& fact : facts) {
      std::vector<std::vector<int64_t>> longer;
      for (const auto& values : all)
        for (int64_t value = std::max<int64_t>(-8, fact.range.low); value <= std::min<int64_t>(8, fact.range.high);
             ++value) {
          if ((value - fact.remainder) % fact.modulus != 0) continue;
          longer.push_back(values);
          longer.back().push_back(value);
        }
      all = std::move(longer);
    }
    return all;
  }
};

constexpr const char* names[] = {"a", "b", "c", "d"};

}  // namespace

TEST_CASE("random expressions mean what plain arithmetic means, within their ranges") {
  const Domain domain;
  const auto all = domain.values();
  SizeTable table;
  Random random{table, {}, std::mt19937_64(7)};
  for (size_t k = 0; k < domain.facts.size(); ++k)
    random.symbols.push_back(table.symbol(names[k], domain.facts[k]));
  for (int round = 0; round < 4000; ++round) {
    const auto [size, meaning] = random.any(static_cast<int>(random.number(1, 4)));
    CAPTURE(to_text(size));
    const SizeRange range = table.range(size);
    REQUIRE(parse_size(to_text(size), table) == size);
    REQUIRE(table.simplify(size) == size);
    SizeCode code;
    code.add(size);
    for (size_t k = 0; k < 40; ++k) {
      const auto& values = all[static_cast<size_t>(random.number(0, static_cast<int64_t>(all.size()) - 1))];
      int64_t value = 0;
      REQUIRE(code.run(values, {&value, 1}));
      REQUIRE(value == meaning(values));
      REQUIRE(range.has(value));
    }
  }
}

TEST_CASE("what is proved holds, what is guarded is what the example says") {
  const Domain domain;
  const auto all = domain.values();
  int proved = 0, guarded = 0;
  for (int round = 0; round < 400; ++round) {
    ShapeEnv env;
    Random random{env.table(), {}, std::mt19937_64(static_cast<uint64_t>(round))};
    const auto pick = [&]() -> const std::vector<int64_t>& {
      return all[static_cast<size_t>(random.number(0, static_cast<int64_t>(all.size()) - 1))];
    };
    const std::vector<int64_t> example = pick();
    for (size_t k = 0; k < domain.facts.size(); ++k)
      random.symbols.push_back(env.create_symbol(names[k], example[k], domain.facts[k]));
    struct Decision {
      SizeTest test;
      Random::Meaning left;
      bool answer;
    };
    std::vector<Decision> decisions;
    const auto holds = [](const SizeTest& test, int64_t value) {
      return test.kind == SizeTest::Kind::equal     ? value == 0
             : test.kind == SizeTest::Kind::differs ? value != 0
                                                    : value >= 0;
    };
    for (int k = 0; k < 8; ++k) {
      const auto [size, meaning] = random.any(static_cast<int>(random.number(0, 2)));
      const SizeTest test = {static_cast<SizeTest::Kind>(random.number(0, 2)), size};
      env.prove(test) ? ++proved : ++guarded;
      const bool answer = env.decide(test, "test");
      CAPTURE(to_text(test));
      REQUIRE(answer == holds(test, meaning(example)));
      REQUIRE(env.prove(test) == answer);
      decisions.push_back({test, meaning, answer});
    }
    REQUIRE(!env.broken(example));
    for (int k = 0; k < 300; ++k) {
      const auto& values = pick();
      if (env.broken(values)) continue;
      for (const Decision& decision : decisions) {
        CAPTURE(to_text(decision.test));
        REQUIRE(holds(decision.test, decision.left(values)) == decision.answer);
      }
      for (const Size& symbol : random.symbols)
        REQUIRE(value_of(env.simplify(symbol), values) == value_of(symbol, values));
    }
  }
  CHECK(proved > 300);
  CHECK(guarded > 300);
}

TEST_CASE("what is divided by sizes that guards keep above 0 means what plain arithmetic means") {
  const Domain domain;
  const auto all = domain.values();
  int divided = 0, proved = 0;
  for (int round = 0; round < 400; ++round) {
    ShapeEnv env;
    Random random{env.table(), {}, std::mt19937_64(static_cast<uint64_t>(round))};
    const auto pick = [&]() -> const std::vector<int64_t>& {
      return all[static_cast<size_t>(random.number(0, static_cast<int64_t>(all.size()) - 1))];
    };
    const std::vector<int64_t> example = pick();
    for (size_t k = 0; k < domain.facts.size(); ++k)
      random.symbols.push_back(env.create_symbol(names[k], example[k], domain.facts[k]));
    std::vector<Random::Pair> sizes;
    struct Proof {
      SizeTest test;
      Random::Meaning left;
      bool answer;
    };
    std::vector<Proof> proofs;
    const auto holds = [](const SizeTest& test, int64_t value) {
      return test.kind == SizeTest::Kind::equal     ? value == 0
             : test.kind == SizeTest::Kind::differs ? value != 0
                                                    : value >= 0;
    };
    const auto any = [&]() -> Random::Pair {
      if (sizes.empty() || random.number(0, 2) == 0) return random.any(static_cast<int>(random.number(0, 2)));
      return sizes[static_cast<size_t>(random.number(0, std::ssize(sizes) - 1))];
    };
    for (int k = 0; k < 12; ++k) {
      const Random::Pair x = any(), y = any();
      CAPTURE(to_text(x.size));
      CAPTURE(to_text(y.size));
      // As capture asks: a divisor is above 0 in the example, and guarded to be.
      if (y.meaning(example) >= 1 && env.decide(at_least(y.size, 1), "a divisor")) {
        known_positive(env.table(), y.size);
        ++divided;
        const auto quotient = [=](const auto& v) { return ir::floor_div(x.meaning(v), y.meaning(v)); };
        if (random.number(0, 1))
          sizes.push_back({floor_div(x.size, y.size), quotient});
        else
          sizes.push_back(
              {mod(x.size, y.size), [=](const auto& v) { return x.meaning(v) - y.meaning(v) * quotient(v); }});
      }
      // Relations between the sizes, from which others follow, and what is proved of them.
      const Random::Pair a = any(), b = any();
      const SizeTest test = {static_cast<SizeTest::Kind>(random.number(0, 2)), a.size - b.size};
      const auto left = [=](const auto& v) { return a.meaning(v) - b.meaning(v); };
      if (const auto answer = env.prove(test)) {
        ++proved;
        proofs.push_back({test, left, *answer});
      } else if (random.number(0, 3) == 0) {
        proofs.push_back({test, left, env.decide(test, "a relation")});
      }
      if (!sizes.empty() && random.number(0, 1)) {
        Random::Pair& one = sizes[static_cast<size_t>(random.number(0, std::ssize(sizes) - 1))];
        one.size = env.simplify(one.size);
      }
    }
    REQUIRE(!env.broken(example));
    for (int k = 0; k < 300; ++k) {
      const auto& values = k ? pick() : example;
      if (env.broken(values)) continue;
      for (const Proof& proof : proofs) {
        CAPTURE(to_text(proof.test));
        REQUIRE(holds(proof.test, proof.left(values)) == proof.answer);
      }
      for (const auto& [size, meaning] : sizes) {
        CAPTURE(to_text(size));
        REQUIRE(value_of(size, values) == meaning(values));
        REQUIRE(value_of(env.simplify(size), values) == meaning(values));
        REQUIRE(env.table().range(size).has(meaning(values)));
        REQUIRE(value_of(parse_size(to_text(size), env.table()), values) == meaning(values));
      }
    }
  }
  CHECK(divided > 1000);
  CHECK(proved > 300);
}

TEST_CASE("guards are few and readable") {
  ShapeEnv env;
  const SymbolFacts from_two = {.range = {2, SizeRange::infinity}};
  const Size batch = env.create_symbol("batch", 8, from_two), length = env.create_symbol("length", 128, from_two);
  const Size other = env.create_symbol("other", 128, from_two);
  CHECK(!env.decide(equal(batch, 1), "broadcast"));
  CHECK(env.decide(at_least(batch * length, 4), "numel"));
  CHECK(env.guards().empty());
  CHECK(env.decide(equal(length, other), "add"));
  CHECK(env.decide(equal(batch * length, batch * other), "view"));  // by the one before
  CHECK(env.decide(equal(mod(length, 4), 0), "view(-1, n // 4)"));
  CHECK(env.decide(equal(4 * floor_div(length, 4), length), "view"));
  CHECK(env.decide(greater(length, 10), "if n > 10"));
  CHECK(env.decide(greater(length, 9), "if n > 9"));
  CHECK(!env.decide(less(length, 5), "if n < 5"));
  CHECK(env.decide(at_most(length, 512), "mask"));
  CHECK(env.decide(differs(length, 77), "if n != 77"));
  CHECK(env.specialise(batch, "range(n)") == 8);
  CHECK(env.simplify(batch * length) == 8 * length);
  std::string text;
  for (const auto& guard : env.guards()) text += to_text(guard.test) + "; ";
  CHECK(text == "length == other; length mod 4 == 0; length >= 11; length <= 512; batch == 8; ");
  CHECK(!env.broken(std::vector<int64_t>{8, 64, 64}));
  CHECK(env.broken(std::vector<int64_t>{8, 64, 32}) == 0);
  CHECK(env.broken(std::vector<int64_t>{8, 66, 66}) == 1);
  CHECK(env.broken(std::vector<int64_t>{8, 8, 8}) == 2);
  CHECK(env.broken(std::vector<int64_t>{4, 64, 64}) == 4);
}

TEST_CASE("what is promised needs no guard") {
  ShapeEnv env;
  const Size n = env.create_symbol("n", 16);
  env.assume(at_least(n, 4));
  env.assume(equal(mod(n, 8), 0));
  CHECK(env.prove(at_least(n, 4)) == true);
  CHECK(env.prove(equal(mod(n, 2), 0)) == true);
  CHECK(env.prove(equal(n, 3)) == false);
  CHECK(env.guards().empty());
  CHECK_THROWS_AS(env.assume(at_least(n, 17)), UserError);
}

TEST_CASE("parts are at most what they are parts of") {
  ShapeEnv env;
  const Size n = env.create_symbol("n", 8), m = env.create_symbol("m", 5), k = env.create_symbol("k", 3);
  CHECK(env.prove(at_least(n, min(n, m))) == true);
  CHECK(env.prove(at_least(n + k, min(n, m))) == true);
  CHECK(env.prove(less(max(n, m) + k, m)) == false);
  CHECK(env.prove(at_least(n, mod(n, 4))) == true);
  CHECK(env.prove(at_least(n + m, floor_div(n, 3) + mod(m, 2))) == true);
  CHECK(env.prove(at_least(n, mod(m, 4))) == std::nullopt);
  CHECK(env.prove(at_least(min(n, m), k)) == std::nullopt);
  CHECK(env.guards().empty());
}

TEST_CASE("factors that all terms share say nothing, if they are above 0") {
  ShapeEnv env;
  const SymbolFacts from_two = {.range = {2, SizeRange::infinity}};
  const Size b = env.create_symbol("b", 4, from_two), n = env.create_symbol("n", 12, from_two);
  const Size m = env.create_symbol("m", 6, from_two), any = env.create_symbol("any", 3);
  CHECK(env.decide(equal(n * m, 6 * n), "view"));
  CHECK(env.simplify(m) == 6);
  CHECK(env.decide(equal(any * b, any * n), "it may be 0") == false);
  CHECK(env.prove(equal(b, n)) == std::nullopt);
  CHECK(env.prove(at_least(2 * b * (n + 3) - 2 * b * mod(n + 3, 4), 1)) == true);
  CHECK(env.decide(at_least(b * n, 9 * b), "a comparison"));
  CHECK(env.prove(at_least(n, 9)) == true);
  CHECK(env.decide(at_least(any * (b + n), 1), "a divisor"));
  CHECK(env.prove(at_least(8 * any * (b + n), 8)) == true);
  std::string text;
  for (const auto& guard : env.guards()) text += to_text(guard.test) + "; ";
  CHECK(text == "m == 6; b*any != n*any; n >= 9; b*any + n*any >= 1; ");
}

TEST_CASE("what is known of an expression stays known when a symbol in it becomes another") {
  ShapeEnv env;
  const SymbolFacts from_two = {.range = {2, SizeRange::infinity}};
  const Size n = env.create_symbol("n", 3, from_two), m = env.create_symbol("m", 3, from_two);
  const Size half = floor_div(m, 2), rows = m - floor_div(2 * m + 1, 3), rest = mod(m, 4);
  CHECK(env.decide(equal(half, 1), "one row"));
  CHECK(env.decide(equal(rows, 1), "one row"));
  CHECK(env.decide(differs(rest, 1), "a remainder"));
  CHECK(env.decide(equal(n, m), "the same"));
  CHECK(env.simplify(m) == n);
  for (const Size size : {half, rows, floor_div(n, 2), n - floor_div(2 * n + 1, 3)})
    CHECK(env.prove(equal(size, 1)) == true);
  CHECK(env.prove(equal(mod(n, 4), 1)) == false);
}

TEST_CASE("a divisor that is guarded to be above 0 stays so in other words") {
  ShapeEnv env;
  const SymbolFacts from_two = {.range = {2, SizeRange::infinity}};
  const Size n = env.create_symbol("n", 12, from_two), m = env.create_symbol("m", 4, from_two);
  const Size k = env.create_symbol("k", 30), l = env.create_symbol("l", 2, from_two);
  const Size shared = n * m - n * l;
  CHECK(env.decide(at_least(shared, 1), "a divisor"));
  CHECK(to_text(env.guards().back().test) == "n*m >= n*l + 1");
  CHECK(to_text(floor_div(k, shared)) == "k floordiv (n*m - n*l)");
  // What both share is taken out of both.
  CHECK(to_text(floor_div(k * n, shared)) == "k floordiv (m - l)");
  CHECK(to_text(mod(k, shared)) == "k mod (n*m - n*l)");
  // A symbol of the divisor becomes another expression.
  const Size quotient = floor_div(k, m - l);
  CHECK(env.decide(equal(m, l + 2), "a relation"));
  CHECK(env.simplify(quotient) == floor_div(k, 2));
  // It was known where it was written.
  SizeTable other;
  for (const char* name : {"n", "m", "k", "l"}) other.symbol(name);
  CHECK(to_text(parse_size("k floordiv (n*m - n*l)", other)) == "k floordiv (n*m - n*l)");
  CHECK_THROWS_AS(parse_size("k floordiv (-n - 1)", other).constant(), InternalError);
}

TEST_CASE("rules prove, or decide and guard") {
  ShapeEnv env;
  const Size n = env.create_symbol("n", 8), m = env.create_symbol("m", 8);
  const SizeRules proving = SizeRules::proving(&env), deciding = SizeRules::deciding(&env, "test"), numbers;
  CHECK(numbers.equal(3, 3));
  CHECK(numbers.less(2, 3));
  CHECK_FALSE(numbers.differs(3, 3));
  CHECK_THROWS_AS(numbers.equal(n, 3), InternalError);
  CHECK(proving.equal(n + 1, 1 + n));
  CHECK_FALSE(proving.equal(n, m));
  CHECK_FALSE(proving.differs(n, m));
  CHECK(proving.at_most(n, n + m));
  CHECK(proving.hint(n * m) == 64);
  CHECK(env.guards().empty());
  CHECK(deciding.equal(n, m));
  CHECK(proving.equal(n, m));
  CHECK_FALSE(deciding.less(n, 8));
  REQUIRE(env.guards().size() == 2);
  CHECK(env.guards()[0].why == "test");
}
