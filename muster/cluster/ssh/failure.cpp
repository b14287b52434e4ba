#include <fmt/format.h>

#include <array>

#include "muster/base/strings.h"
#include "muster/cluster/ssh/starter.h"

namespace muster::cluster::ssh {
namespace {

struct Meaning {
  std::string_view pattern;
  std::string_view text;
  bool may_try_again;
  std::string_view hint;
};

constexpr std::string_view kUnknownHost = "check the name: neither DNS, /etc/hosts nor ~/.ssh/config knows it";

// As OpenSSH 9.2 says it (older and newer ones too, mostly). The more telling stands first: when a connection is
// closed, what was said before tells why.
constexpr std::array kMeanings = {
    Meaning{"REMOTE HOST IDENTIFICATION HAS CHANGED", "the host key has changed", false,
            "if the host was installed again, forget its old key: ssh-keygen -R HOST"},
    Meaning{"Host key verification failed", "host key verification failed", false,
            "log in once by hand to accept its key, or use --ssh-option StrictHostKeyChecking=accept-new"},
    Meaning{"Too many authentication failures", "too many authentication failures", false,
            "name the one key to use: --ssh-option IdentitiesOnly=yes"},
    Meaning{"pam_slurm_adopt", "you have no job on this node (pam_slurm_adopt)", false, ""},
    Meaning{"Permission denied (", "", false, "ssh must get in without a password: a key, an agent, or host-based"},
    Meaning{"Name or service not known", "no such host", false, kUnknownHost},
    Meaning{"No address associated with hostname", "no such host", false, kUnknownHost},
    Meaning{"Temporary failure in name resolution", "the name cannot be looked up just now", true, ""},
    Meaning{"Could not resolve hostname", "the name cannot be looked up", false, kUnknownHost},
    Meaning{"Bad configuration option", "", false, ""},
    Meaning{"Bad owner or permissions on", "", false, ""},
    Meaning{"Unable to negotiate with", "", false, ""},
    Meaning{"Connection refused", "connection refused", true, ""},
    Meaning{"No route to host", "no route to the host", true, ""},
    Meaning{"Network is unreachable", "the network is unreachable", true, ""},
    Meaning{"System is booting up", "the system is booting", true, ""},
    Meaning{"timed out during banner exchange", "connection timed out", true, ""},
    Meaning{"Connection timed out", "connection timed out", true, ""},
    Meaning{"Operation timed out", "connection timed out", true, ""},
    Meaning{"not responding", "connection lost (the host no longer answers)", true, ""},
    Meaning{"Connection reset by", "connection reset", true, ""},
    Meaning{"send disconnect: Broken pipe", "connection lost", true, ""},
    Meaning{"Connection closed by", "connection closed by the other side", true, ""},
    Meaning{"closed by remote host", "connection closed by the other side", true, ""},
};

constexpr size_t kLongest = 200;

std::string_view line_around(std::string_view text, size_t at) {
  size_t begin = text.rfind('\n', at);
  begin = begin == std::string_view::npos ? 0 : begin + 1;
  return trim(text.substr(begin, text.find('\n', at) - begin));
}

std::string last_line(std::string_view text) {
  text = trim(text);
  return std::string(trim(text.substr(text.empty() ? 0 : text.rfind('\n') + 1)).substr(0, kLongest));
}

// "me@n1: Permission denied (publickey)." gives "permission denied (publickey)"; other lines stay as ssh wrote them.
std::string own_words(std::string_view line) {
  size_t denied = line.find("Permission denied (");
  if (denied == std::string_view::npos) return std::string(line.substr(0, kLongest));
  return "p" + std::string(line.substr(denied + 1, line.find(')', denied) - denied));
}

}  // namespace

Failure explain_failure(int exit_code, std::string_view stderr_text) {
  for (const Meaning& meaning : kMeanings) {
    size_t at = stderr_text.find(meaning.pattern);
    if (at == std::string_view::npos) continue;
    std::string text(meaning.text);
    if (text.empty()) text = own_words(line_around(stderr_text, at));
    return {text, meaning.may_try_again, std::string(meaning.hint)};
  }
  std::string line = last_line(stderr_text);
  return {line.empty() ? fmt::format("exit code {}", exit_code) : line, true, {}};
}

bool is_last_word(std::string_view line) {
  constexpr std::array<std::string_view, 6> kStarts = {"client_loop: ",          "Connection closed by ",
                                                       "Connection reset by ",   "Timeout, server ",
                                                       "Read from remote host ", "packet_write_"};
  for (std::string_view start : kStarts)
    if (line.starts_with(start)) return true;
  return line.starts_with("Connection to ") &&
         (line.ends_with(" closed by remote host.") || line.ends_with(" closed."));
}

}  // namespace muster::cluster::ssh
