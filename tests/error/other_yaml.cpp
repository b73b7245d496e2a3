// Stands for a yaml-cpp of another version that a program brings along, for
// config_test.py: the same names, and nothing that would work.
#include <cstdlib>

#define TJIT_TRAP(symbol)                                            \
  extern "C" __attribute__((visibility("default"))) void symbol();   \
  extern "C" void symbol() { std::abort(); }

// YAML::LoadAll(std::istream&), YAML::Parser::Parser(std::istream&),
// YAML::Parser::HandleNextDocument(EventHandler&)
TJIT_TRAP(_ZN4YAML7LoadAllERSi)
TJIT_TRAP(_ZN4YAML6ParserC1ERSi)
TJIT_TRAP(_ZN4YAML6Parser18HandleNextDocumentERNS_12EventHandlerE)
