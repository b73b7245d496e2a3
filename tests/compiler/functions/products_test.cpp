// Products against sums that a scalar loop makes one by one, bit for bit: all
// orders, forms, tables and packings, sizes around vectors, tiles and chunks.
#include "compiler/functions/products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace tjit {
namespace {

enum class Form { kPlain, kATransposed, kBTransposed };

// `slack`: elements between the end of a row and the next one.
Product Make(std::int64_t m, std::int64_t n, std::int64_t k, Form form,
             const ProductOrder& order, std::int64_t slack = 0) {
  Product p;
  p.m = m;
  p.n = n;
  p.k = k;
  p.a_row = form == Form::kATransposed ? 1 : k + slack;
  p.a_term = form == Form::kATransposed ? m + slack : 1;
  p.b_term = form == Form::kBTransposed ? 1 : n + slack;
  p.b_column = form == Form::kBTransposed ? k + slack : 1;
  p.c_row = n + slack;
  p.order = order;
  return p;
}

// One element, as ProductOrder says it. z: null is 0.
template <class T>
T Element(const Product& p, const T* a, const T* b, const T* z) {
  const auto step = [&](std::int64_t t, T sum) {
    const T x = a[t * p.a_term], y = b[t * p.b_term];
    if (p.order.is_fused) return std::fma(x, y, sum);
    const volatile T product = x * y;
    return sum + product;
  };
  const auto ended = [&](T sum) {
    return p.order.ends_at_zero ? sum + T(0) : sum;
  };
  if (p.order.starts_at_z) {
    T sum = z != nullptr ? *z : p.order.starts_at_minus_zero ? T(-0.0) : T(0);
    for (std::int64_t t = 0; t < p.k; ++t) sum = step(t, sum);
    return z != nullptr ? sum : ended(sum);
  }
  if (p.order.lanes != 0) {
    const std::int64_t whole = p.k / p.order.lanes * p.order.lanes;
    std::vector<T> sums(static_cast<std::size_t>(p.order.lanes));
    for (std::int64_t t = 0; t < whole; ++t) {
      T& sum = sums[static_cast<std::size_t>(t % p.order.lanes)];
      sum = step(t, sum);
    }
    for (std::size_t i = 0; i < 4 && p.order.lanes == 8; ++i) {
      sums[i] = sums[i] + sums[i + 4];
    }
    T sum = (sums[0] + sums[2]) + (sums[1] + sums[3]);
    for (std::int64_t t = whole; t < p.k; ++t) sum = step(t, sum);
    return z == nullptr ? ended(sum) : *z + sum;
  }
  const std::int64_t block =
      p.order.block != 0 ? p.order.block : std::max<std::int64_t>(p.k, 1);
  T result = z != nullptr ? *z : T(0);
  const T zero = p.order.starts_at_minus_zero ? T(-0.0) : T(0);
  bool is_there = z != nullptr;
  for (std::int64_t first = 0; first < std::max<std::int64_t>(p.k, 1);
       first += block) {
    T sum = zero;
    for (std::int64_t t = first; t < std::min(p.k, first + block); ++t) {
      sum = step(t, sum);
    }
    result = is_there ? result + sum : ended(sum);
    is_there = true;
  }
  return result;
}

enum class Numbers { kOrdinary, kSpecial, kZeros, kTiny, kVanishing };

template <class T>
std::vector<T> Draw(std::int64_t count, Numbers kind, std::mt19937* random) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> numbers(static_cast<std::size_t>(count));
  std::normal_distribution<T> normal;
  const T special[] = {Limits::infinity(),
                       -Limits::infinity(),
                       Limits::quiet_NaN(),
                       Limits::max(),
                       Limits::denorm_min(),
                       T(0),
                       -T(0)};
  for (T& x : numbers) {
    const std::uint32_t bits = (*random)();
    x = normal(*random);
    if (kind == Numbers::kSpecial && bits % 24 == 0) x = special[bits / 24 % 7];
    if (kind == Numbers::kZeros && bits % 4 != 0)
      x = bits % 8 < 4 ? T(0) : -T(0);
    if (kind == Numbers::kTiny) x = std::ldexp(x, sizeof(T) == 4 ? -70 : -530);
    if (kind == Numbers::kVanishing) {
      x = std::ldexp(x, sizeof(T) == 4 ? -75 : -538);
    }
  }
  return numbers;
}

template <class T>
bool SameNumber(T x, T y) {
  return std::memcmp(&x, &y, sizeof(T)) == 0 || (x != x && y != y);
}

enum class Addend { kNone, kRow, kAll, kResult };

template <class T>
void Compare(Product p, ProductFn<T> function, Addend addend, Numbers kind,
             const std::string& what) {
  std::mt19937 random(static_cast<std::uint32_t>(p.m * 31 + p.n * 7 + p.k));
  const auto extent = [](std::int64_t rows, std::int64_t row, std::int64_t n,
                         std::int64_t column) {
    return std::max<std::int64_t>((rows - 1) * row + (n - 1) * column + 1, 1);
  };
  const std::int64_t size = extent(p.m, p.c_row, p.n, 1);
  const auto a = Draw<T>(extent(p.m, p.a_row, p.k, p.a_term), kind, &random);
  const auto b = Draw<T>(extent(p.k, p.b_term, p.n, p.b_column), kind, &random);
  const auto before = Draw<T>(size, kind, &random);
  const auto other = Draw<T>(size, kind, &random);
  std::vector<T> c = before;
  p.z_row = addend == Addend::kRow ? 0 : p.c_row;
  const T* z = addend == Addend::kNone     ? nullptr
               : addend == Addend::kResult ? c.data()
                                           : other.data();
  const T* const z_before = z == c.data() ? before.data() : z;
  std::vector<T> scratch(static_cast<std::size_t>(ScratchOf(p)));
  function(p, a.data(), b.data(), z, c.data(), scratch.data());
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t row = i / p.c_row, column = i % p.c_row;
    T expected = before[static_cast<std::size_t>(i)];
    if (column < p.n) {
      expected = Element(
          p, a.data() + row * p.a_row, b.data() + column * p.b_column,
          z_before == nullptr ? nullptr : z_before + row * p.z_row + column);
    }
    ASSERT_TRUE(SameNumber(c[static_cast<std::size_t>(i)], expected))
        << what << " row " << row << " column " << column << ": "
        << c[static_cast<std::size_t>(i)] << ", not " << expected;
  }
}

std::string TextOf(const Product& p, const ProductTable& table, Addend addend) {
  std::string text = table.capability;
  for (const std::int64_t n :
       {p.m, p.n, p.k, p.a_row, p.b_term, p.c_row, p.order.block,
        std::int64_t{p.order.is_fused}, std::int64_t{p.order.starts_at_z},
        std::int64_t{p.order.ends_at_zero}, std::int64_t{p.packs_a},
        std::int64_t{p.packs_b}, static_cast<std::int64_t>(addend)}) {
    text += ' ';
    text += std::to_string(n);
  }
  return text;
}

std::vector<ProductOrder> Orders() {
  return {{true, false, 0},
          {true, true, 0},
          {true, false, 5},
          {false, false, 0},
          {false, true, 0},
          {false, false, 96},
          {true, false, 0, 0, true},
          {false, false, 0, 0, true},
          {true, false, 0, 0, false, true},
          {false, true, 0, 0, false, true},
          {true, false, 5, 0, false, true}};
}

// All tables, orders, packings and addends.
template <class T>
void CompareAll(std::int64_t m, std::int64_t n, std::int64_t k, Form form,
                std::int64_t slack, Numbers kind) {
  int count = 0;
  const ProductTable* const* const tables = ProductTables(&count);
  for (int i = 0; i < count; ++i) {
    for (const ProductOrder& order : Orders()) {
      for (int packing = 0; packing < 4; ++packing) {
        for (const Addend addend :
             {Addend::kNone, Addend::kRow, Addend::kAll, Addend::kResult}) {
          Product p = Make(m, n, k, form, order, slack);
          p.packs_a = packing % 2 != 0;
          p.packs_b = packing >= 2 || form == Form::kBTransposed;
          Compare<T>(p, FunctionOf<T>(*tables[i]), addend, kind,
                     TextOf(p, *tables[i], addend));
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

constexpr Form kForms[] = {Form::kPlain, Form::kATransposed,
                           Form::kBTransposed};

TEST(ProductsTest, SizesAroundVectorsAndTiles) {
  for (const Form form : kForms) {
    for (const std::int64_t m : {1, 2, 5, 7, 8, 13, 16, 25}) {
      for (const std::int64_t n : {1, 3, 4, 8, 9, 15, 16, 17, 32, 33}) {
        CompareAll<float>(m, n, 11, form, 0, Numbers::kOrdinary);
        CompareAll<double>(m, n, 7, form, 0, Numbers::kOrdinary);
      }
    }
  }
}

TEST(ProductsTest, LongSumsAndChunksOfThem) {
  for (const Form form : kForms) {
    for (const std::int64_t k : {1, 2, 8, 95, 97, 193, 256, 257, 600}) {
      CompareAll<float>(13, 37, k, form, 0, Numbers::kOrdinary);
      CompareAll<double>(9, 21, k, form, 3, Numbers::kOrdinary);
    }
  }
}

TEST(ProductsTest, MoreThanIsPackedAtOnce) {
  for (const Form form : kForms) {
    CompareAll<float>(600, 20, 3, form, 0, Numbers::kOrdinary);
    CompareAll<float>(5, 1100, 6, form, 1, Numbers::kOrdinary);
  }
}

TEST(ProductsTest, RowsThatDoNotTouch) {
  for (const Form form : kForms) {
    CompareAll<float>(11, 19, 23, form, 5, Numbers::kOrdinary);
    CompareAll<double>(11, 19, 23, form, 1, Numbers::kOrdinary);
  }
}

// All columns are packed, also where there are more than of other products.
TEST(ProductsTest, SumsSideBySideOfManyColumns) {
  int count = 0;
  const ProductTable* const* const tables = ProductTables(&count);
  for (int i = 0; i < count; ++i) {
    Product p = Make(2, 2051, 64, Form::kBTransposed, {false, false, 0, 4}, 0);
    p.packs_b = true;
    EXPECT_GE(ScratchOf(p), 2052 * 64);
    Compare<float>(p, tables[i]->f32, Addend::kNone, Numbers::kOrdinary,
                   TextOf(p, *tables[i], Addend::kNone));
  }
}

TEST(ProductsTest, SumsSideBySide) {
  int count = 0;
  const ProductTable* const* const tables = ProductTables(&count);
  for (int i = 0; i < count; ++i) {
    for (const std::int64_t lanes : {4, 8}) {
      for (const std::int64_t m : {1, 2, 3, 7, 33}) {
        for (const std::int64_t n : {1, 3, 4, 5, 8, 10, 15, 33}) {
          for (const std::int64_t k : {0, 4, 8, 20, 48}) {
            for (const Numbers kind :
                 {Numbers::kOrdinary, Numbers::kSpecial, Numbers::kVanishing}) {
              for (const Addend addend :
                   {Addend::kNone, Addend::kRow, Addend::kResult}) {
                Product p = Make(m, n, k, Form::kBTransposed,
                                 {false, false, 0, lanes}, m % 2 * 4);
                p.order.ends_at_zero = n % 2 == 0;
                p.packs_b = lanes == 4;
                Compare<float>(p, tables[i]->f32, addend, kind,
                               TextOf(p, *tables[i], addend));
                if (HasFatalFailure()) return;
              }
            }
          }
        }
      }
    }
  }
}

TEST(ProductsTest, SpecialNumbers) {
  for (const Form form : kForms) {
    for (const Numbers kind : {Numbers::kSpecial, Numbers::kZeros,
                               Numbers::kTiny, Numbers::kVanishing}) {
      CompareAll<float>(13, 35, 14, form, 0, kind);
      CompareAll<double>(13, 19, 14, form, 2, kind);
    }
  }
}

TEST(ProductsTest, NoTermsMakeZerosOrTheAddend) {
  for (const Form form : kForms) {
    CompareAll<float>(5, 19, 0, form, 0, Numbers::kOrdinary);
    CompareAll<double>(3, 5, 0, form, 0, Numbers::kSpecial);
  }
}

TEST(ProductsTest, NothingToComputeTouchesNothing) {
  int count = 0;
  const ProductTable* const* const tables = ProductTables(&count);
  float one = 1;
  for (int i = 0; i < count; ++i) {
    tables[i]->f32(Make(0, 5, 3, Form::kPlain, {}), &one, &one, nullptr, &one,
                   nullptr);
    tables[i]->f32(Make(5, 0, 3, Form::kPlain, {}), &one, &one, nullptr, &one,
                   nullptr);
  }
  EXPECT_EQ(one, 1);
}

TEST(ProductsTest, AnUnderflowedSumEndsAtZeroOrDoesNot) {
  const float tiny = -std::numeric_limits<float>::min(), quarter = 0x1p-30F;
  int count = 0;
  const ProductTable* const* const tables = ProductTables(&count);
  for (int i = 0; i < count; ++i) {
    for (const bool ends_at_zero : {false, true}) {
      Product p = Make(1, 1, 1, Form::kPlain, {});
      p.order.ends_at_zero = ends_at_zero;
      float c = 1;
      tables[i]->f32(p, &tiny, &quarter, nullptr, &c, nullptr);
      EXPECT_EQ(c, 0);
      EXPECT_EQ(std::signbit(c), !ends_at_zero);
    }
  }
}

// Else the comparisons above would say nothing of the order.
TEST(ProductsTest, OrdersDiffer) {
  constexpr std::int64_t kTerms = 300, kElements = 64;
  std::mt19937 random(3);
  const auto a = Draw<float>(kTerms, Numbers::kOrdinary, &random);
  const auto b = Draw<float>(kTerms * kElements, Numbers::kOrdinary, &random);
  const float z = 0.3F;
  std::vector<std::vector<float>> results;
  for (const ProductOrder& order : Orders()) {
    // These differ in zeros alone.
    if (order.starts_at_minus_zero || order.ends_at_zero) continue;
    const Product p = Make(1, kElements, kTerms, Form::kBTransposed, order);
    std::vector<float>& of_order = results.emplace_back();
    for (std::int64_t j = 0; j < kElements; ++j) {
      of_order.push_back(Element(p, a.data(), b.data() + j * p.b_column, &z));
    }
  }
  std::sort(results.begin(), results.end());
  EXPECT_EQ(std::adjacent_find(results.begin(), results.end()), results.end());
}

}  // namespace
}  // namespace tjit
