// Reads YAML by yaml-cpp, behind an interface of plain C.
//
// Built as a library of its own, libtjit_yaml.so, which libtjit.so loads only
// if TJIT_CONFIG is set: Debian's yaml-cpp comes for sharing alone, its symbols
// carry no version, and a program may bring another one. The interface passes
// no object of C++, so the two sides need not share an allocator.
//
// Thread: any.
// Tested by: tests/support/config_test.cpp, tests/error/config_test.py
#pragma once

#include <cstddef>

extern "C" {

// A value inside a map that is the value of a key of the top. Lines and columns
// count from 1.
struct TjitYamlValue {
  enum Kind {
    kText,  // nothing is the empty text
    kList,  // a list begins, whose items follow
    kItem,  // an item of it
    kMap,
  };
  enum Kind kind;
  const char* text;  // null for a list or a map
  bool is_text;      // it is quoted
  int line, column;
};

// Lines and columns count from 1.
struct TjitYamlSink {
  void* context;
  // One `key: value` of the top. `value` is null if it is a list or a map;
  // `is_text` if it is quoted. Before what a map holds comes its own entry.
  void (*entry)(void* context, const char* key, const char* value, bool is_text,
                int line, int column);
  // What a map under `key` holds at `name`, and what the map there holds at
  // `option`, which is null for a value that is none. A list in the place of
  // the first map comes with an empty name.
  void (*nested)(void* context, const char* key, const char* name,
                 const char* option, const struct TjitYamlValue* value);
  // What is wrong with the text; it has no entries then.
  void (*error)(void* context, const char* what, int line, int column);
};

// Throws nothing.
void tjit_read_yaml(const char* text, std::size_t bytes,
                    const TjitYamlSink* sink);

}  // extern "C"
