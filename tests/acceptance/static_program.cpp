// A program that nothing can be preloaded into, for run_test.py.
#include <unistd.h>

int main() { return write(STDOUT_FILENO, "static\n", 7) == 7 ? 3 : 1; }
