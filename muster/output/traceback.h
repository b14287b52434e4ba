#pragma once

#include <string_view>

// What the lines of a Python traceback look like. Pure: each function looks at one line, without its newline.
namespace muster::output {

// The line without a carriage return at its end, and without what PyTorch puts in front of the lines of a traceback
// ("[rank3]: ") and of its C++ log ("[rank3]:"). The functions below take the line that is left.
std::string_view bare_line(std::string_view line);

// "Traceback (most recent call last):"
bool is_traceback(std::string_view line);
// The same of an exception group, which indents all of its lines.
bool is_group_traceback(std::string_view line);
// A line of frames and source, between the first line of a traceback and that of its exception: empty, or indented.
bool is_frame_line(std::string_view line);
// "During handling of the above exception, …": the next traceback belongs to the same error.
bool is_chain_line(std::string_view line);

}  // namespace muster::output
