// tjit report FILE [--log=LOG] [--dump=DUMP] -o PAGE.html
//
// Writes what a file of TJIT_STATS says about a run as one HTML page
// (report_page.h), with pictures from its log and its dump.
// Tested by: tests/acceptance/report_test.py
#pragma once

namespace tjit::tools {

// `arguments` are those after the word "report". Returns the exit status: 2 for
// a wrong command line, a file that is not one of TJIT_STATS, or a page that
// cannot be written.
int ReportCommand(int count, char** arguments);

}  // namespace tjit::tools
