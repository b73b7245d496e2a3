// The style and the script of the page of `tjit report`, which needs no other
// file and no network.
// Tested by: tests/acceptance/report_test.py
#pragma once

namespace tjit::tools {

extern const char kReportStyle[];
extern const char kReportScript[];
// The SHA-256 of kReportScript as the page's Content-Security-Policy wants it:
// a browser runs no other script. Whoever changes the script is told the new
// one by report_test.py.
extern const char kReportScriptHash[];

}  // namespace tjit::tools
