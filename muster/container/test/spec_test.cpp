#include "muster/container/spec.h"

#include <gtest/gtest.h>

namespace muster::container {
namespace {

std::string mount_error(const std::string& text) {
  auto mount = parse_mount(text, "/home/a");
  return mount ? "accepted" : mount.error().text();
}

TEST(Spec, MountsAreReadWithAndWithoutMode) {
  EXPECT_EQ(*parse_mount("/data:/mnt", "/"), (Mount{"/data", "/mnt", false}));
  EXPECT_EQ(*parse_mount("/data/:/mnt/:ro", "/"), (Mount{"/data", "/mnt", true}));
  EXPECT_EQ(*parse_mount("/data:/mnt:rw", "/"), (Mount{"/data", "/mnt", false}));
}

TEST(Spec, RelativeSourcesStartAtTheWorkingDirectory) {
  EXPECT_EQ(parse_mount("data:/mnt", "/home/a")->source, "/home/a/data");
  EXPECT_EQ(parse_mount("data:/mnt", "/")->source, "/data");
}

TEST(Spec, BadMountsAreRefusedWithTheForm) {
  const std::string form = "; write SOURCE:TARGET or SOURCE:TARGET:ro";
  EXPECT_EQ(mount_error("/data"), "'/data' does not say where it is mounted" + form);
  EXPECT_EQ(mount_error("/a:/b:ro:x"), "'/a:/b:ro:x' has too many colons" + form);
  EXPECT_EQ(mount_error("/a:b"), "'/a:b' needs a target that begins with /" + form);
  EXPECT_EQ(mount_error(":/b"), "':/b' names an empty path" + form);
  EXPECT_EQ(mount_error("/a:"), "'/a:' names an empty path" + form);
  EXPECT_EQ(mount_error("/a:/"), "'/a:/' would hide the whole container" + form);
  EXPECT_EQ(mount_error("/a:/b:r"), "'/a:/b:r' ends in 'r'" + form);
}

TEST(Spec, PathsAreShownOnceAndNeverOverAMountOfTheUser) {
  std::vector<Mount> mounts{{"/fast", "/tmp", false}, {"/data", "/data", true}};
  show(mounts, "/tmp");
  show(mounts, "/home/a");
  show(mounts, "/home/a/logs");
  show(mounts, "/home/ab");
  show(mounts, "/data/out");
  show(mounts, "/");
  EXPECT_EQ(mounts, (std::vector<Mount>{{"/fast", "/tmp", false},
                                        {"/data", "/data", true},
                                        {"/home/a", "/home/a", false},
                                        {"/home/ab", "/home/ab", false},
                                        {"/data/out", "/data/out", false}}));
}

FindProgram only(const std::string& name) {
  return [name](const std::string& wanted) -> Result<std::string> {
    if (wanted == name) return "/usr/bin/" + name;
    return Error{ErrorKind::kNotFound, "no " + wanted, {}};
  };
}

TEST(Spec, TheRuntimeThatIsThereIsTaken) {
  EXPECT_EQ(find_runtime("", only("enroot"))->kind, Kind::kEnroot);
  EXPECT_EQ(find_runtime("", only("singularity"))->kind, Kind::kApptainer);
  EXPECT_EQ(find_runtime("", only("singularity"))->program, "/usr/bin/singularity");
  EXPECT_EQ(find_runtime("", only("ch-run"))->kind, Kind::kCharliecloud);
  auto any = [](const std::string& wanted) -> Result<std::string> { return "/bin/" + wanted; };
  EXPECT_EQ(find_runtime("", any)->kind, Kind::kEnroot);
  EXPECT_EQ(find_runtime("podman", any)->program, "/bin/podman");
}

TEST(Spec, ARuntimeThatIsMissingIsNamed) {
  EXPECT_EQ(find_runtime("charliecloud", only("podman")).error().text(),
            "there is no ch-run on PATH; install it, load its module, or choose another --container-runtime");
  EXPECT_EQ(
      find_runtime("", only("docker")).error().text(),
      "there is no container runtime on PATH: neither enroot, apptainer, podman nor charliecloud; install one, or "
      "load its module");
}

TEST(Spec, WhatIsWrittenAsAPathIsNoName) {
  for (Kind kind : {Kind::kEnroot, Kind::kApptainer, Kind::kPodman, Kind::kCharliecloud}) {
    for (const char* path : {"/i", "./i", "../i", "missing.sqsh", "images/torch.sif", "torch.tar", "a/torch.tar.gz"})
      EXPECT_TRUE(is_written_as_path(kind, path)) << path;
    EXPECT_FALSE(is_written_as_path(kind, "docker://pytorch/pytorch"));
  }
  for (const char* name :
       {"pytorch/pytorch", "docker.io/pytorch/pytorch:latest", "localhost/torch:2.tarred", "debian:12"}) {
    EXPECT_FALSE(is_written_as_path(Kind::kPodman, name)) << name;
    EXPECT_FALSE(is_written_as_path(Kind::kCharliecloud, name)) << name;
    EXPECT_TRUE(is_written_as_path(Kind::kApptainer, name)) << name;
  }
}

std::string refusal(const Spec& spec) {
  auto good = check(spec);
  return good ? "accepted" : good.error().text();
}

TEST(Spec, WhatARuntimeCannotDoIsRefused) {
  Spec spec{.kind = Kind::kCharliecloud, .image = "/i"};
  EXPECT_EQ(refusal(spec), "accepted");
  spec.mounts = {{"/data", "/mnt", true}};
  EXPECT_EQ(refusal(spec),
            "charliecloud cannot mount /data read-only; leave :ro out, or use another --container-runtime");
  spec.mounts = {{"/data", "/tmp/data", false}};
  EXPECT_EQ(refusal(spec),
            "charliecloud shows the node's /tmp inside and can mount nothing at /tmp/data; mount it elsewhere");
  spec.mounts = {{"/tmp/data", "/tmp/data", false}};
  EXPECT_EQ(refusal(spec), "accepted");
  spec.options = {"--env-no-expand"};
  EXPECT_EQ(refusal(spec),
            "--env-no-expand would keep workers from their variables, which ch-run is told by name; leave it out");
  spec.kind = Kind::kApptainer;
  spec.mounts = {{"/a,b", "/mnt", false}};
  EXPECT_EQ(refusal(spec), "apptainer cannot mount /a,b: it has a comma; mount a directory above it");
  spec.mounts = {{"/a:b", "/a:b", false}};
  EXPECT_EQ(refusal(spec),
            "/a:b has a colon and cannot be seen inside a container; work in another directory, or mount one above it");
  EXPECT_EQ(
      refusal({.kind = Kind::kEnroot, .image = "docker://ubuntu"}),
      "enroot runs image files, and docker://ubuntu is an address; fetch it once with 'enroot import -o image.sqsh "
      "docker://ubuntu' and give --container image.sqsh");
  EXPECT_EQ(refusal({.kind = Kind::kEnroot, .image = "/i", .name = "a/b"}),
            "--container-name: 'a/b' is not a name for a container; use letters, digits, '_', '.' and '-'");
  EXPECT_EQ(refusal({}), "there is no image to run the workers in; name one with --container");
}

}  // namespace
}  // namespace muster::container
