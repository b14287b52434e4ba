#include "muster/process/python.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "helpers.h"
#include "muster/base/strings.h"
#include "muster/process/site_packages.h"

namespace muster::process {
namespace {

using ::testing::HasSubstr;

TEST(FindProgram, OnPath) {
  test::TempDir dir;
  dir.write("a/tool", "", false);
  dir.write("b/tool/not-a-file", "");
  std::string good = dir.write("c/tool", "", true);
  auto found = find_program("tool", fmt::format("{0}/none:{0}/a:{0}/b:{0}/c", dir.path()));
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, good);

  auto refused = find_program("tool", dir / "a");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kNotExecutable);
  auto folder = find_program("tool", dir / "b");
  ASSERT_FALSE(folder.ok());
  EXPECT_THAT(folder.error().text(), HasSubstr("is a directory"));
  auto absent = find_program("tool", dir / "none");
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().kind, ErrorKind::kNotFound);
  EXPECT_FALSE(find_program("", "/usr/bin").ok());
}

TEST(FindProgram, WithASlash) {
  test::TempDir dir;
  EXPECT_TRUE(find_program(dir.write("good", "", true), "/usr/bin").ok());
  EXPECT_EQ(find_program(dir.write("plain", ""), "").error().kind, ErrorKind::kNotExecutable);
  EXPECT_EQ(find_program(dir / "absent", "").error().kind, ErrorKind::kNotFound);
}

TEST(FindPython, Order) {
  test::TempDir dir;
  std::string three = dir.write("a/python3", "", true);
  std::string plain = dir.write("b/python", "", true);
  EXPECT_EQ(*find_python(test::environment({{"PATH", fmt::format("{0}/a:{0}/b", dir.path())}})), plain);
  EXPECT_EQ(*find_python(test::environment({{"PATH", dir / "a"}})), three);
  EXPECT_EQ(*find_python(test::environment({{"PATH", dir / "b"}, {"PYTHON_EXEC", three}})), three);
  EXPECT_EQ(*find_python(test::environment({{"PATH", dir / "a"}, {"PYTHON_EXEC", "python3"}})), three);

  auto none = find_python(test::environment({{"PATH", dir / "none"}}));
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, ErrorKind::kUsage);
  auto lost = find_python(test::environment({{"PATH", dir / "a"}, {"PYTHON_EXEC", "/opt/gone"}}));
  ASSERT_FALSE(lost.ok());
  EXPECT_EQ(lost.error().text(),
            "PYTHON_EXEC: /opt/gone does not exist; set it to a Python that can be run, or unset it");
}

TEST(SitePackages, Texts) {
  EXPECT_EQ(venv_setting("home = /usr/bin\nInclude-System-Site-Packages=True\n", "include-system-site-packages"),
            "True");
  EXPECT_EQ(venv_setting("versions = 1", "version"), std::nullopt);
  EXPECT_EQ(python_minor("3.11.2"), "3.11");
  EXPECT_EQ(python_minor("3.8.10.final.0"), "3.8");
  EXPECT_EQ(python_minor("python3.12"), "3.12");
  for (const char* text : {"", "python", "python3", "python3.", "pypy3.10", "3.x"}) {
    EXPECT_EQ(python_minor(text), std::nullopt) << text;
  }
  EXPECT_EQ(assigned_version("from typing import Optional\n\n__all__ = ['__version__']\n__version__ = '2.13.0+cpu'\n"),
            "2.13.0+cpu");
  EXPECT_EQ(assigned_version("__version__: str = \"1.7.1\"\n"), "1.7.1");
  EXPECT_EQ(assigned_version("__version__ = base\n"), std::nullopt);
  EXPECT_EQ(metadata_version("torch-2.13.0+cpu.dist-info"), "2.13.0+cpu");
  EXPECT_EQ(metadata_version("torch-1.7.1-py3.8.egg-info"), "1.7.1");
  EXPECT_EQ(metadata_version("torch-1.13.0a0.egg-info"), "1.13.0a0");
  EXPECT_EQ(metadata_version("torchvision-0.8.dist-info"), std::nullopt);
  EXPECT_EQ(metadata_version("torch-1.0"), std::nullopt);
  EXPECT_EQ(parse_torch_version("1.13.0a0"), (TorchVersion{1, 13, "1.13.0a0"}));
  EXPECT_EQ(parse_torch_version("1.13a0+git"), (TorchVersion{1, 13, "1.13a0+git"}));
  for (const char* text : {"", "1", "x.1", "1.x", "1.", "99999.1"}) EXPECT_FALSE(parse_torch_version(text)) << text;
}

class FindTorch : public ::testing::Test {
 protected:
  // An installation with its interpreter, under <dir>/<prefix>.
  std::string install_python(const std::string& prefix) {
    std::string python = dir_.write(prefix + "/bin/python3.11", "\177ELF", true);
    dir_.write(prefix + "/lib/python3.11/os.py", "");
    link("python3.11", prefix + "/bin/python3");
    return python;
  }
  void link(const std::string& target, const std::string& name) {
    std::filesystem::path path = dir_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::filesystem::create_symlink(target, path);
  }
  std::string make_venv(const std::string& name, bool system_site) {
    dir_.write(name + "/pyvenv.cfg",
               fmt::format("home = {}/usr/bin\ninclude-system-site-packages = {}\nversion = 3.11.2\n", dir_.path(),
                           system_site));
    link(dir_ / "usr/bin/python3.11", name + "/bin/python");
    return dir_ / (name + "/bin/python");
  }
  void install_torch(const std::string& folder, const std::string& version) {
    dir_.write(folder + "/torch/__init__.py", "");
    dir_.write(folder + "/torch/version.py", fmt::format("__version__ = '{}'\n", version));
  }
  std::string found(const std::string& python, std::map<std::string, std::string> variables = {}) {
    auto version = find_torch(python, test::environment(std::move(variables)));
    return version ? version->text : "none";
  }
  test::TempDir dir_;
};

TEST_F(FindTorch, Nowhere) { EXPECT_EQ(found(install_python("usr")), "none"); }

TEST_F(FindTorch, InTheInstallation) {
  std::string python = install_python("opt/conda");
  install_torch("opt/conda/lib/python3.11/site-packages", "2.1.0");
  EXPECT_EQ(found(python), "2.1.0");
  EXPECT_EQ(found(dir_ / "opt/conda/bin/python3"), "2.1.0");
}

TEST_F(FindTorch, DebianAndItsLocalOne) {
  std::string python = install_python("usr");
  install_torch("usr/lib/python3/dist-packages", "1.13.0a0");
  EXPECT_EQ(found(python), "1.13.0a0");
  install_torch("usr/local/lib/python3.11/dist-packages", "2.2.0");
  EXPECT_EQ(found(python), "2.2.0");
}

TEST_F(FindTorch, RedHat) {
  std::string python = install_python("usr");
  install_torch("usr/lib64/python3.11/site-packages", "1.8.1");
  EXPECT_EQ(found(python), "1.8.1");
}

TEST_F(FindTorch, Venv) {
  install_python("usr");
  install_torch("usr/lib/python3/dist-packages", "1.13.0a0");
  std::string alone = make_venv("alone", false);
  EXPECT_EQ(found(alone, {{"HOME", dir_ / "home"}}), "none");
  std::string open = make_venv("open", true);
  EXPECT_EQ(found(open), "1.13.0a0");
  install_torch("home/.local/lib/python3.11/site-packages", "2.0.0");
  EXPECT_EQ(found(alone, {{"HOME", dir_ / "home"}}), "none");
  EXPECT_EQ(found(open, {{"HOME", dir_ / "home"}}), "2.0.0");
  install_torch("open/lib/python3.11/site-packages", "2.13.0+cpu");
  EXPECT_EQ(found(open, {{"HOME", dir_ / "home"}}), "2.13.0+cpu");
}

TEST_F(FindTorch, UserSite) {
  std::string python = install_python("usr");
  install_torch("usr/lib/python3/dist-packages", "1.13.0a0");
  install_torch("home/.local/lib/python3.11/site-packages", "2.0.0");
  install_torch("base/lib/python3.11/site-packages", "2.1.0");
  EXPECT_EQ(found(python, {{"HOME", dir_ / "home"}}), "2.0.0");
  EXPECT_EQ(found(python, {{"HOME", dir_ / "home"}, {"PYTHONUSERBASE", dir_ / "base"}}), "2.1.0");
  EXPECT_EQ(found(python, {{"HOME", dir_ / "home"}, {"PYTHONNOUSERSITE", "1"}}), "1.13.0a0");
}

TEST_F(FindTorch, PythonPathComesFirst) {
  std::string python = install_python("usr");
  install_torch("usr/lib/python3/dist-packages", "1.13.0a0");
  install_torch("x", "1.7.1");
  install_torch("y", "1.8.0");
  EXPECT_EQ(found(python, {{"PYTHONPATH", fmt::format("{0}/none:{0}/x:{0}/y", dir_.path())}}), "1.7.1");
}

TEST_F(FindTorch, MetadataWhereThereIsNoVersionFile) {
  std::string python = install_python("opt");
  dir_.write("opt/lib/python3.11/site-packages/torch-1.7.1.dist-info/METADATA", "");
  EXPECT_EQ(found(python), "none");  // metadata alone is no package
  dir_.write("opt/lib/python3.11/site-packages/torch/__init__.py", "");
  EXPECT_EQ(found(python), "1.7.1");
}

TEST_F(FindTorch, EditableInstall) {
  std::string python = install_python("opt");
  install_torch("src/pytorch", "2.14.0a0+git1234");
  dir_.write("opt/lib/python3.11/site-packages/easy-install.pth",
             fmt::format("# ours\nimport sys\n{}/src/pytorch\n", dir_.path()));
  EXPECT_EQ(found(python), "2.14.0a0+git1234");
}

TEST_F(FindTorch, PyenvShim) {
  for (const char* version : {"3.11.2", "3.11.10"}) {
    std::string prefix = std::string("pyenv/versions/") + version;
    install_python(prefix);
    link("python3.11", prefix + "/bin/python");
    install_torch(prefix + "/lib/python3.11/site-packages",
                  std::string("2.0.") + (prefix.ends_with("10") ? "10" : "2"));
  }
  std::string shim = dir_.write("pyenv/shims/python", "#!/usr/bin/env bash\nexec pyenv exec python\n", true);
  EXPECT_EQ(found(shim), "none");
  dir_.write("pyenv/version", "3.11.2\n");
  EXPECT_EQ(found(shim), "2.0.2");
  EXPECT_EQ(found(shim, {{"PYENV_VERSION", "3.11.10:3.11.2"}}), "2.0.10");
  EXPECT_EQ(found(shim, {{"PYENV_VERSION", "3.11"}}), "2.0.10");  // the newest
  EXPECT_EQ(found(shim, {{"PYENV_VERSION", "3.12"}}), "none");
  EXPECT_EQ(found(shim, {{"PYENV_VERSION", "system"}}), "none");
  EXPECT_EQ(found(dir_.write("bin/python", "#!/bin/sh\n", true)), "none");
}

// What a real interpreter says of its torch, against what we read.
void expect_same_torch(const std::string& python) {
  if (!std::filesystem::exists(python)) GTEST_SKIP() << "no " << python;
  SpawnSpec spec{
      .program = python,
      .argv = {python, "-c",
               "import importlib.util as u, os, runpy\n"
               "s = u.find_spec('torch')\n"
               "print(runpy.run_path(os.path.dirname(s.origin) + '/version.py')['__version__'] if s else 'none')"}};
  for (const char* name : {"PATH", "HOME", "PYTHONPATH"}) {
    if (auto value = environment_variable(name)) spec.environment.add(name, *value);
  }
  auto version = find_torch(python, environment_variable);
  EXPECT_EQ(version ? version->text : "none", trim(test::output_of(spec))) << python;
}

TEST(FindTorchReal, AgreesWithDebiansPython) { expect_same_torch("/usr/bin/python3"); }

TEST(FindTorchReal, AgreesWithThePythonOfTheVirtualEnvironment) {
  auto venv = environment_variable("MUSTER_VENV");
  if (!venv) GTEST_SKIP() << "MUSTER_VENV is not set";
  expect_same_torch(*venv + "/bin/python");
}

}  // namespace
}  // namespace muster::process
