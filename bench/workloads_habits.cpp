#include "bench/workloads_habits.h"

#include <iterator>

namespace tjit::bench {

std::vector<Row> HabitRows() {
  std::vector<Row> rows;
  for (auto* some :
       {HabitDataRows, HabitSequenceRows, HabitGraphRows, HabitModelRows}) {
    std::vector<Row> more = some();
    rows.insert(rows.end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
  }
  return rows;
}

}  // namespace tjit::bench
