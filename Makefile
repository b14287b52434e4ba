# The front door: `make help` lists what there is. Everything is built by CMake presets; this only names the steps.

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
DESTDIR ?=
MUSTER := build/release/bin/muster

.DEFAULT_GOAL := build
.PHONY: help build all demo test unit bench fuzz lint format install install-program install-library install-torchrun-completions uninstall setup release dev tsan clean soak long nightly

help:  ## this list
	@echo 'make            the program: $(MUSTER)'
	@sed -n 's/^\([a-z]*\):.*##  *\(.*\)/make \1|\2/p' Makefile | awk -F'|' '{printf "%-15s %s\n", $$1, $$2}'
	@echo
	@echo 'Variables: JOBS=$(JOBS)  PREFIX=$(PREFIX)  DESTDIR=  TORCHRUN=1 (install a torchrun symlink too)'
	@echo '           SECONDS_EACH=N KEEP=DIR (make fuzz)  MUSTER_VENV=DIR (use this virtual environment, not .venv)'

build: build/release/build.ninja
	@cmake --build --preset release -j $(JOBS) --target muster

all: release  ## the program, the unit tests and the benchmarks

demo:  ## install what is missing, build, train on two simulated nodes, lose one, see a failure explained
	@tools/setup build demo
	@$(MAKE) --no-print-directory build
	@tools/demo

test:  ## install what is missing, build, run the tests (all but those of `make long`)
	@tools/setup build test
	@$(MAKE) --no-print-directory release
	@tools/test

unit: release  ## the unit tests alone
	@tools/test --unit

bench:  ## install what is missing, measure against torchrun, mpirun and torch's store
	@tools/setup build bench
	@$(MAKE) --no-print-directory release
	@bench/run.py --json build/bench/results.json

long: release  ## the tests that take minutes each, which `make test` leaves out
	@/usr/bin/python3 -m pytest test -q -m long

soak: build  ## FAULTS random faults in jobs on real nodes (root), SEED to repeat a run
	@test/multinode/soak.py $(if $(FAULTS),--faults $(FAULTS)) $(if $(SEED),--seed $(SEED))

nightly:  ## all that takes too long for CI (root); PARTS="…": some of it
	@tools/setup build test lint dev bench
	@tools/nightly $(if $(SECONDS_EACH),--seconds $(SECONDS_EACH)) $(if $(FAULTS),--faults $(FAULTS)) \
	  $(if $(SCHEDULES),--schedules $(SCHEDULES)) $(PARTS)

fuzz: dev  ## each fuzzer over its corpus and for SECONDS_EACH
	@tools/fuzz $(if $(SECONDS_EACH),--seconds $(SECONDS_EACH)) $(if $(KEEP),--keep $(KEEP))

lint:  ## clang-format, clang-tidy, the documents; DEEP=1: also the checks that take long
	@tools/setup build lint
	@$(MAKE) --no-print-directory build/release/build.ninja
	@tools/lint $(if $(DEEP),--deep)

format:  ## rewrite the sources with clang-format
	@git ls-files --cached --others --exclude-standard 'muster/*.cpp' 'muster/*.h' | xargs clang-format-14 -i

install: install-program install-library  ## all under $(DESTDIR)$(PREFIX); install-program: without the C++ library

install-library: build
	DESTDIR='$(DESTDIR)' cmake --install build/release --component library --prefix '$(PREFIX)'

install-program: build
	install -D -m 755 $(MUSTER) '$(DESTDIR)$(PREFIX)/bin/muster'
	$(if $(TORCHRUN),ln -sf muster '$(DESTDIR)$(PREFIX)/bin/torchrun')
	$(MUSTER) man >build/release/muster.1
	install -D -m 644 build/release/muster.1 '$(DESTDIR)$(PREFIX)/share/man/man1/muster.1'
	$(MUSTER) completion bash >build/release/completion.bash
	install -D -m 644 build/release/completion.bash '$(DESTDIR)$(PREFIX)/share/bash-completion/completions/muster'
	$(MUSTER) completion zsh >build/release/completion.zsh
	install -D -m 644 build/release/completion.zsh '$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_muster'
	$(MUSTER) completion fish >build/release/completion.fish
	install -D -m 644 build/release/completion.fish '$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/muster.fish'
	$(if $(TORCHRUN),$(MAKE) install-torchrun-completions)

install-torchrun-completions:
	$(MUSTER) torchrun --print-completion bash >build/release/torchrun.bash
	install -m 644 build/release/torchrun.bash '$(DESTDIR)$(PREFIX)/share/bash-completion/completions/torchrun'
	$(MUSTER) torchrun --print-completion zsh >build/release/torchrun.zsh
	install -m 644 build/release/torchrun.zsh '$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_torchrun'
	echo "complete -c torchrun -w 'muster torchrun'" >build/release/torchrun.fish
	install -m 644 build/release/torchrun.fish '$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/torchrun.fish'

uninstall:  ## what install put there
	rm -rf '$(DESTDIR)$(PREFIX)/include/muster' '$(DESTDIR)$(PREFIX)'/lib*/cmake/muster '$(DESTDIR)$(PREFIX)'/lib*/libmuster_*.a
	rm -f '$(DESTDIR)$(PREFIX)/bin/muster' '$(DESTDIR)$(PREFIX)/share/man/man1/muster.1' \
	  '$(DESTDIR)$(PREFIX)/share/bash-completion/completions/muster' \
	  '$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_muster' \
	  '$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/muster.fish'
	if [ "$$(readlink '$(DESTDIR)$(PREFIX)/bin/torchrun')" = muster ]; then \
	  rm -f '$(DESTDIR)$(PREFIX)/bin/torchrun' '$(DESTDIR)$(PREFIX)/share/bash-completion/completions/torchrun' \
	    '$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_torchrun' \
	    '$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/torchrun.fish'; fi

setup:  ## install what building, demo and tests need (and a virtual environment for the tests)
	@tools/setup

release: build/release/build.ninja  ## everything, optimised
	@cmake --build --preset release -j $(JOBS)

dev:  ## install what is missing, build everything and the fuzzers with clang, AddressSanitizer and UndefinedBehaviorSanitizer
	@tools/setup build dev
	@$(MAKE) --no-print-directory build/dev/build.ninja
	@cmake --build --preset dev -j $(JOBS)

tsan: build/tsan/build.ninja  ## everything, with ThreadSanitizer
	@cmake --build --preset tsan -j $(JOBS)

build/%/build.ninja: CMakePresets.json
	@command -v cmake ninja >/dev/null || { echo 'cmake and ninja are not installed: run make setup' >&2; exit 1; }
	@cmake --preset $*

clean:  ## all that was built
	rm -rf build
