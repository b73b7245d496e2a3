#include "bench/harness.h"

int main(int argc, char** argv) {
  return tjit::bench::RunRows(argc, argv, tjit::bench::HabitRows());
}
