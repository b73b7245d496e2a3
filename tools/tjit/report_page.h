// The page of `tjit report`: HTML with its style and its script inside.
//
// ReportPage() puts the sections in order; report_tables.h writes those that
// are nothing but tables. Each figure stands in the page twice: for people in
// the text, and exactly as data-value.
// Tested by: tests/acceptance/report_test.py
#pragma once

#include <string>

#include "tools/tjit/report_pictures.h"
#include "tools/tjit/stats_file.h"

namespace tjit::tools {

// How a page begins.
inline constexpr char kReportBeginning[] =
    "<!DOCTYPE html>\n<!-- tjit report -->\n";

std::string ReportPage(const StatsFile& stats, const ReportPictures& pictures);

}  // namespace tjit::tools
