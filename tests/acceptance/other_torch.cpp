// Stands for a libtorch_cpu.so of another build, for run_test.py.
extern "C" __attribute__((visibility("default"))) int other_torch = 1;
