// What an interpreter runs: two scripts are two programs, though one file is
// executed for both.
//
//   python -u train.py --epochs 3      script /home/me/train.py
//   python -m app.train                module app.train, and where, if it lies
//                                      in the working folder
//   python -c 'import torch; ...'      code, by its hash
//   ./train data.csv                   nothing: it is the program itself
//
// Links are followed. Where nothing can be said, by a script that comes from
// standard input or in an interactive session, the text is empty.
// Thread: any. Tested by: tests/recorder/script_test.cpp,
// tests/acceptance/profile_test.py
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tjit {

// True for python3.11, bash, Rscript and their like, by the name of the file.
bool IsInterpreter(std::string_view executable);

// `arguments` begin with the program's name; `folder` is the working one.
std::string ScriptOf(std::string_view executable,
                     const std::vector<std::string>& arguments,
                     const std::string& folder);

// ScriptOf this process, as it was started and in the folder where it is now.
std::string ScriptOfProcess(std::string_view executable);

}  // namespace tjit
