#include "muster/plan/script.h"

#include <gtest/gtest.h>

namespace muster::plan {
namespace {

TEST(Script, AFirstLineThatStartsMuster) {
  for (const char* line :
       {"#!/usr/bin/env -S muster run --nproc-per-node 2\nimport os", "#!/usr/bin/env muster\n",
        "#!/opt/bin/muster torchrun --nnodes 2\n", "#! /opt/bin/muster run\r\n", "#!/bin/muster",
        "#!/usr/bin/env -Smuster run\n", "#!/usr/bin/env --split-string=muster run\n",
        "#!/usr/bin/env -S OMP_NUM_THREADS=4 'muster' run\n", "#!/usr/bin/env -S srun\tmuster run\n"})
    EXPECT_TRUE(starts_muster(line)) << line;
  for (const char* line : {"", "#!", "#!/bin/sh\nmuster run x", "#!/opt/muster/bin/python\n", "import muster\n",
                           "# /usr/bin/muster\n", "#!/usr/bin/env -S python -u /opt/muster/train\n"})
    EXPECT_FALSE(starts_muster(line)) << line;
}

TEST(Script, AFirstLineThatStartsAMusterOfAnotherName) {
  for (const char* line : {"#!/opt/bin/muster-0.2 run\n", "#!/usr/bin/env -S muster-0.2 run\n"}) {
    EXPECT_TRUE(starts_muster(line, "muster-0.2")) << line;
    EXPECT_FALSE(starts_muster(line)) << line;
  }
  EXPECT_TRUE(starts_muster("#!/opt/bin/muster run\n", "muster-0.2"));
  EXPECT_FALSE(starts_muster("#!/bin/sh -e\n", "")) << "the name is not known";
}

TEST(Script, TheCopyOfABatchScript) {
  const Environment in_job = {{"SLURM_JOB_ID", "12"}}, elsewhere;
  EXPECT_TRUE(is_spooled("/var/spool/slurmd/job00012/slurm_script", in_job));
  EXPECT_FALSE(is_spooled("/var/spool/slurmd/job00012/slurm_script", elsewhere));
  EXPECT_FALSE(is_spooled("train.py", in_job));
}

TEST(Script, HasADirectoryOfItsOwn) {
  EXPECT_EQ(script_file("/tmp", "id", "/var/spool/x/slurm_script"), "/tmp/muster_script_id/slurm_script");
  EXPECT_EQ(script_file("/scratch", "id", "-"), "/scratch/muster_script_id/stdin");
}

}  // namespace
}  // namespace muster::plan
