// The order in which rows of loops run.
#include "compiler/program/loop_chain.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace tjit {
namespace {

using Range = std::pair<std::int64_t, std::int64_t>;

std::vector<Range> Pieces(std::int64_t begin, std::int64_t end,
                          std::int64_t rows, bool goes_back) {
  std::vector<Range> pieces;
  RunPieces(begin, end, rows, goes_back,
            [&](std::int64_t b, std::int64_t e) { pieces.emplace_back(b, e); });
  return pieces;
}

TEST(RunChainTest, GoesBackPieceByPiece) {
  const std::vector<Range> wanted = {{9, 10}, {6, 9}, {3, 6}};
  EXPECT_EQ(Pieces(3, 10, 3, true), wanted);
  EXPECT_EQ(Pieces(3, 9, 3, true), (std::vector<Range>{{6, 9}, {3, 6}}));
  EXPECT_EQ(Pieces(3, 5, 3, true), (std::vector<Range>{{3, 5}}));
  EXPECT_TRUE(Pieces(3, 3, 3, true).empty());
}

TEST(RunChainTest, GoesForwardInOne) {
  EXPECT_EQ(Pieces(3, 10, 3, false), (std::vector<Range>{{3, 10}}));
  EXPECT_EQ(Pieces(3, 10, 0, true), (std::vector<Range>{{3, 10}}));
  // Columns begin and end without rows too.
  EXPECT_EQ(Pieces(3, 3, 0, true), (std::vector<Range>{{3, 3}}));
}

TEST(RunChainTest, PiecesAreOfWhatCachesHold) {
  const Chain one{0, 0, 0}, two{0, 1, 192};
  EXPECT_EQ(PieceRows(one, 1000, kZigzagBytes), 0);
  EXPECT_EQ(PieceRows(one, 0, 0), 0);
  EXPECT_EQ(PieceRows(one, 1024, 4 << 20), 128);
  EXPECT_EQ(PieceRows(one, 1024, kMostZigzagBytes + 1), 0);
  EXPECT_EQ(PieceRows(one, 3, 6 << 20), 1);
  // Of elements whole vectors and tiles, of chains whole blocks.
  EXPECT_EQ(PieceRows(one, 65536, 65536 * 88), 6144);
  EXPECT_EQ(PieceRows(two, 1024, 4 << 20), 192);
  EXPECT_EQ(PieceRows(two, 65536, 65536 * 88) % 192, 0);
}

}  // namespace
}  // namespace tjit
