#include "muster/output/stream_plan.h"

namespace muster::output {
namespace {

bool has_bit(const std::map<int, int>& masks, int local_rank, job::Stream stream) {
  auto found = masks.find(local_rank);
  return found != masks.end() && (found->second & (1 << static_cast<int>(stream))) != 0;
}

bool console_wants(const job::OutputSpec& output, int local_rank) {
  return !output.console_ranks || output.console_ranks->empty() || output.console_ranks->count(local_rank) != 0;
}

bool has_filters(const job::OutputSpec& output, job::Stream stream) {
  return !(stream == job::Stream::kStdout ? output.stdout_filters : output.stderr_filters).empty();
}

StreamPlan::Source choose_source(const job::JobSpec& job, const StreamPlan& plan, job::Stream stream, bool terminal) {
  using Source = StreamPlan::Source;
  // Even of a stream that nobody wants to see the failure report wants the last words.
  if (!plan.file && !plan.console) return stream == job::Stream::kStdout ? Source::kNull : Source::kPipe;
  if (!plan.file && job.output.inherit_plain_streams) return Source::kInherit;
  // torchrun's workers write to a file when tee'd, never to a terminal.
  bool sees_terminal = terminal && plan.console && job.flavor == job::Flavor::kMuster;
  return sees_terminal ? Source::kPty : Source::kPipe;
}

}  // namespace

StreamPlan plan_stream(const job::JobSpec& job, int local_rank, job::Stream stream, bool logs_disabled, bool terminal) {
  bool torchrun = job.flavor != job::Flavor::kMuster;
  StreamPlan plan;
  bool teed = false;
  plan.console = true;
  if (!logs_disabled) {
    teed = has_bit(job.output.tee, local_rank, stream);
    plan.file = teed || has_bit(job.output.redirects, local_rank, stream);
    plan.console = (teed || !plan.file) && console_wants(job.output, local_rank);
    plan.filtered = teed && plan.console && has_filters(job.output, stream);
  }
  // torchrun prefixes tee'd streams only. Where it has a label, its lines are among those of other nodes.
  bool has_label = job.output.label != job::LabelKind::kNone;
  plan.labelled = has_label || (torchrun ? teed : !job.output.prefix_template.empty());
  plan.source = choose_source(job, plan, stream, terminal);
  if (torchrun && teed) {
    plan.style = StreamPlan::Style::kTorchrun;
  } else if (!plan.labelled && job.workers == 1) {
    plan.style = StreamPlan::Style::kRaw;
  }
  return plan;
}

}  // namespace muster::output
