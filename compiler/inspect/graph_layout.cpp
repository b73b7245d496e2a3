#include "compiler/inspect/graph_layout.h"

#include <algorithm>
#include <numeric>

namespace tjit {
namespace {

constexpr int kMargin = 16, kGapX = 24, kGapY = 44, kPadding = 8;
constexpr int kPointWidth = 8;  // of a line between boxes
constexpr int kSweeps = 4;
// A line over more ranks than this runs straight.
constexpr int kMaxBends = 64;

// A box, or the bend of a line (node < 0).
struct Item {
  int node = -1;
  int rank = 0;
  int width = kPointWidth, height = 0;
  int x = 0;  // of the centre
  std::vector<int> above, below;
};

class Layouter {
 public:
  explicit Layouter(const Graph& graph) : graph_(graph) {}

  GraphLayout Run() {
    AddBoxes();
    for (const GraphEdge& edge : graph_.edges) AddEdge(edge);
    FillRanks();
    Order();
    Place();
    return Result();
  }

 private:
  void AddBoxes() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      Item item;
      item.node = static_cast<int>(i);
      std::size_t longest = 0;
      for (const std::string& line : graph_.nodes[i].lines) {
        longest = std::max(longest, line.size());
      }
      item.width = static_cast<int>(longest) * kGraphTextWidth + 2 * kPadding;
      item.height =
          static_cast<int>(graph_.nodes[i].lines.size()) * kGraphLineHeight +
          2 * kPadding;
      items_.push_back(std::move(item));
    }
    for (const GraphEdge& edge : graph_.edges) {  // sorted by `to`
      items_[edge.to].rank =
          std::max(items_[edge.to].rank, items_[edge.from].rank + 1);
    }
    PullDownExternals();
  }

  void PullDownExternals() {
    std::vector<int> first(items_.size(), -1);
    for (const GraphEdge& edge : graph_.edges) {
      const int rank = items_[edge.to].rank;
      int& lowest = first[edge.from];
      if (lowest < 0 || rank < lowest) lowest = rank;
    }
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (graph_.nodes[i].kind != GraphNodeKind::kExternal) continue;
      if (first[i] > 0) items_[i].rank = first[i] - 1;
    }
  }

  void Connect(int above, int below) {
    items_[above].below.push_back(below);
    items_[below].above.push_back(above);
  }

  void AddEdge(const GraphEdge& edge) {
    std::vector<int>& route = routes_.emplace_back();
    route.push_back(edge.from);
    const int begin = items_[edge.from].rank + 1, end = items_[edge.to].rank;
    if (end - begin <= kMaxBends) {
      for (int rank = begin; rank < end; ++rank) {
        Item bend;
        bend.rank = rank;
        route.push_back(static_cast<int>(items_.size()));
        items_.push_back(std::move(bend));
      }
    }
    route.push_back(edge.to);
    for (std::size_t i = 1; i < route.size(); ++i) {
      Connect(route[i - 1], route[i]);
    }
  }

  void FillRanks() {
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const auto rank = static_cast<std::size_t>(items_[i].rank);
      if (ranks_.size() <= rank) ranks_.resize(rank + 1);
      ranks_[rank].push_back(static_cast<int>(i));
    }
  }

  void Order() {
    std::vector<double> place(items_.size());
    const auto renumber = [&](const std::vector<int>& rank) {
      for (std::size_t i = 0; i < rank.size(); ++i) {
        place[rank[i]] = static_cast<double>(i);
      }
    };
    for (const auto& rank : ranks_) renumber(rank);
    const auto sort = [&](std::vector<int>* rank, bool down) {
      for (const int i : *rank) {
        const auto& others = down ? items_[i].above : items_[i].below;
        if (others.empty()) continue;
        double sum = 0;
        for (const int other : others) sum += place[other];
        place[i] = sum / static_cast<double>(others.size());
      }
      std::stable_sort(rank->begin(), rank->end(), [&](int a, int b) {
        return place[a] < place[b];
      });
      renumber(*rank);
    };
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      for (auto& rank : ranks_) sort(&rank, true);
      for (std::size_t r = ranks_.size(); r-- > 0;) sort(&ranks_[r], false);
    }
  }

  // Each as near below what it reads as its neighbours let it.
  void Place() {
    for (const auto& rank : ranks_) {
      int end = 0;
      long shift = 0;
      int counted = 0;
      for (const int i : rank) {
        Item& item = items_[i];
        const int wanted = Wanted(item);
        item.x = std::max(end + item.width / 2, wanted);
        if (!item.above.empty()) {
          shift += wanted - item.x;
          ++counted;
        }
        end = item.x + (item.width + 1) / 2 + kGapX;
      }
      if (counted == 0) continue;
      for (const int i : rank) {
        items_[i].x += static_cast<int>(shift / counted);
      }
    }
  }

  int Wanted(const Item& item) const {
    long sum = 0;
    for (const int other : item.above) sum += items_[other].x;
    return item.above.empty()
               ? 0
               : static_cast<int>(sum / static_cast<long>(item.above.size()));
  }

  GraphLayout Result() {
    GraphLayout out;
    int left = 0;
    for (const Item& item : items_) {
      left = std::min(left, item.x - item.width / 2);
    }
    std::vector<int> tops, heights;
    int y = kMargin;
    for (const auto& rank : ranks_) {
      int height = 0;
      for (const int i : rank) height = std::max(height, items_[i].height);
      tops.push_back(y);
      heights.push_back(height);
      y += height + kGapY;
    }
    out.height = y - kGapY + kMargin;
    for (Item& item : items_) {
      item.x += kMargin - left;
      out.width = std::max(out.width, item.x + item.width / 2 + kMargin);
      if (item.node < 0) continue;
      const int top =
          tops[item.rank] + (heights[item.rank] - item.height) / 2;
      out.boxes.push_back(
          {{item.x - item.width / 2, top}, item.width, item.height});
    }
    for (const auto& route : routes_) {
      auto& points = out.routes.emplace_back();
      for (const int i : route) {
        const Item& item = items_[i];
        if (item.node < 0) {
          points.push_back({item.x, tops[item.rank]});
          points.push_back({item.x, tops[item.rank] + heights[item.rank]});
          continue;
        }
        const GraphBox& box = out.boxes[item.node];
        const bool is_start = points.empty();
        points.push_back({item.x, box.at.y + (is_start ? box.height : 0)});
      }
    }
    return out;
  }

  const Graph& graph_;
  std::vector<Item> items_;               // boxes first, by node
  std::vector<std::vector<int>> ranks_;   // items, from left to right
  std::vector<std::vector<int>> routes_;  // items, by edge
};

}  // namespace

GraphLayout LayOut(const Graph& graph) { return Layouter(graph).Run(); }

}  // namespace tjit
