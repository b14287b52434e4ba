#include <fmt/format.h>

#include <array>

#include "muster/base/strings.h"
#include "muster/cluster/ssh/starter.h"

namespace muster::cluster::ssh {
namespace {

using enum StartCause;

constexpr std::string_view kSshOption = "check --ssh and --ssh-option";
constexpr std::string_view kUnknownHost = "check the name: neither DNS, /etc/hosts nor ~/.ssh/config knows it";

// As OpenSSH 9.2 says it (older and newer ones too, mostly). The more telling stands first: when a connection is
// closed, what was said before tells why.
constexpr std::array kMeanings = {
    Meaning{"REMOTE HOST IDENTIFICATION HAS CHANGED", kHostKey, "the host key has changed", false,
            "if the host was installed again, forget its old key: ssh-keygen -R HOST"},
    Meaning{"Host key verification failed", kHostKey, "host key verification failed", false,
            "log in once by hand to accept its key, or use --ssh-option StrictHostKeyChecking=accept-new"},
    Meaning{"Too many authentication failures", kPermission, "too many authentication failures", false,
            "name the one key to use: --ssh-option IdentitiesOnly=yes"},
    Meaning{"pam_slurm_adopt", kPermission, "you have no job on this node (pam_slurm_adopt)", false, ""},
    Meaning{"Permission denied (", kPermission, "", false,
            "ssh must get in without a password: a key, an agent, or host-based"},
    Meaning{"Name or service not known", kNoSuchHost, "no such host", false, kUnknownHost},
    Meaning{"No address associated with hostname", kNoSuchHost, "no such host", false, kUnknownHost},
    Meaning{"Temporary failure in name resolution", kNoSuchHost, "the name cannot be looked up just now", true, ""},
    Meaning{"Could not resolve hostname", kNoSuchHost, "the name cannot be looked up", false, kUnknownHost},
    Meaning{"Bad configuration option", kThisMachine, "", false, ""},
    Meaning{"line 0: unsupported ", kThisMachine, "", false, kSshOption},
    Meaning{"line 0: invalid ", kThisMachine, "", false, kSshOption},
    Meaning{"line 0: no argument ", kThisMachine, "", false, kSshOption},
    Meaning{"line 0: Bad ", kThisMachine, "", false, kSshOption},
    Meaning{"bad configuration options", kThisMachine, "", false, "check ~/.ssh/config"},
    Meaning{"usage: ssh [", kThisMachine, "it does not take these options", false, "check --ssh"},
    Meaning{"No user exists for uid", kThisMachine, "", false, ""},
    Meaning{"Bad owner or permissions on", kThisMachine, "", false, ""},
    Meaning{"Unable to negotiate with", kHostKey, "", false, ""},
    Meaning{"Connection refused", kUnreachable, "connection refused", true, ""},
    Meaning{"No route to host", kUnreachable, "no route to the host", true, ""},
    Meaning{"Network is unreachable", kUnreachable, "the network is unreachable", true, ""},
    Meaning{"System is booting up", kUnreachable, "the system is booting", true, ""},
    Meaning{"timed out during banner exchange", kTimedOut, "connection timed out", true, ""},
    Meaning{"Connection timed out", kTimedOut, "connection timed out", true, ""},
    Meaning{"Operation timed out", kTimedOut, "connection timed out", true, ""},
    Meaning{"not responding", kLost, "connection lost (the host no longer answers)", true, ""},
    Meaning{"Connection reset by", kLost, "connection reset", true, ""},
    Meaning{"send disconnect: Broken pipe", kLost, "connection lost", true, ""},
    Meaning{"Connection closed by", kLost, "connection closed by the other side", true, ""},
    Meaning{"closed by remote host", kLost, "connection closed by the other side", true, ""},
};

constexpr size_t kLongest = 200;

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

StartFailure explain_failure(int exit_code, std::string_view stderr_text) {
  if (auto known = find_meaning(kMeanings, stderr_text, own_words)) return *std::move(known);
  std::string line = last_line(stderr_text);
  if (line.empty()) line = fmt::format("exit code {}", exit_code);
  return {kLost, {ErrorKind::kPeer, std::move(line), {}}, true};
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
