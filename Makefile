# For people: `make help`. CMake does the work; presets are in CMakePresets.json.

SHELL := bash
JOBS ?= $(shell nproc)
# Tests say in quarters of a core what they take (cmake/settings.cmake).
CTEST = ctest -j $(shell expr 4 \* $(JOBS))
# Ninja where there is one; once a build folder is configured, what it was configured with.
export CMAKE_GENERATOR ?= $(if $(shell command -v ninja),Ninja,Unix Makefiles)
PREFIX ?= /usr/local
MAKEFLAGS += --no-print-directory
# What `make format` writes; `make tidy` reads all of it but the tests.
FOLDERS = $(wildcard base kernels transport bootstrap engine fabric nccl plot bench tools examples tests)

.DEFAULT_GOAL := help

programs: deps
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target weft_programs

bench: programs ## build the programs, then a quick real sweep: all_reduce on 2 ranks, checked
	build/release/bin/weft-bench all_reduce --ranks 2 -b 8 -e 16M -f 8

test: build-release ## build, then the fast tests (10 to 20 minutes on 2 cores, the slower with nvcc)
	$(CTEST) --preset release -LE slow

PEER_PACKAGES = openmpi-bin:mpirun.openmpi libopenmpi-dev:mpicc.openmpi mpich:mpirun.mpich \
  libmpich-dev:mpicc.mpich libgloo-dev:gloo/allreduce.h gnuplot-nox:gnuplot
peers: ## install Open MPI, MPICH and Gloo, build, compare with them (RANKS MAX FACTOR ROUNDS)
	@cmake/deps.sh $(PEER_PACKAGES)
	$(MAKE) build-release
	bench/peers/compare.sh build/release/bin/weft-bench build/peers

deps: ## install the packages that are missing (WEFT_NO_INSTALL=1: only name them)
	@cmake/deps.sh

build-asan: clang
clang:
	@cmake/deps.sh clang lld:ld.lld 'libclang-rt-dev:/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a'

build-%: deps
	cmake --preset $*
	cmake --build --preset $* -j $(JOBS)

sanitize: test-asan test-tsan ## the fast tests under AddressSanitizer + UBSan, then ThreadSanitizer

# Without address randomization where that may be switched off: older TSan runtimes need it.
NO_ASLR = $(shell setarch -R true 2>/dev/null && echo setarch -R)
test-%: build-%
	$(NO_ASLR) $(CTEST) --preset $* -LE 'slow|uninstrumented'

test-slow: build-release ## the tests with the label slow (some 6 minutes on 2 cores)
	$(CTEST) --preset release -L slow -LE long

# Without such a machine it says why, and that it was skipped; WEFT_VM_ARGS="collectives loss" runs parts.
test-verbs: build-release ## RDMA on real queue pairs: Debian's kernel with software RoCE, in a virtual machine
	@tests/transport/verbs/vm/run.sh build/release build/verbs-vm || \
	  { status=$$?; [ $$status = 77 ] && echo "test-verbs: SKIPPED (the reason is above)" || exit $$status; }

# Offline, where weft is built: python3 tests/gpu/check.py --help. GPU_CHECK="--nccl-tests FOLDER" gives it more.
# It is built for the GPUs that are here, or as before where there are none.
GPU_ARCHITECTURES = $(shell python3 -B tests/gpu/gpus.py)
gpu-check: deps ## check and measure weft on this machine's GPUs; results in build/gpu-check
	cmake --preset release $(if $(GPU_ARCHITECTURES),-DWEFT_CUDA_ARCHITECTURES="$(GPU_ARCHITECTURES)")
	cmake --build --preset release -j $(JOBS) --target weft_gpu_check
	@python3 -B tests/gpu/check.py $(GPU_CHECK) || \
	  { status=$$?; [ $$status = 77 ] && echo "gpu-check: SKIPPED (the reason is above)" || exit $$status; }

chaos: build-release ## break jobs on purpose, 20,000 simulated and 300 real ones at least, and count
	build/release/bin/weft-chaos --real 300 --simulated 25000

FUZZ_RUNS ?= 1000000
fuzz: build-asan ## what reads bytes from outside, under libFuzzer (FUZZ_RUNS=1000000 inputs each)
	JOBS=$(JOBS) tests/fuzz/run.sh build/asan $(FUZZ_RUNS)

tidy: ## layers, sizes, formatting, headers that compile alone, clang-tidy
	@cmake/deps.sh clang-format-14 clang-tidy-14:run-clang-tidy-14
	$(MAKE) build-release
	ctest --preset release -L tidy
	cmake --build --preset release -j $(JOBS) --target weft_headers_alone
	run-clang-tidy-14 -quiet -p build/release -j $(JOBS) \
	  '^$(CURDIR)/($(subst $(eval) ,|,$(filter-out tests,$(FOLDERS))))/.*\.cc$$'

docs: ## reference of the public headers in build/docs/html; fails on what is not documented
	@cmake/deps.sh doxygen
	@mkdir -p build/docs
	doxygen docs/Doxyfile
	@echo build/docs/html/index.html

format: ## clang-format everything in place
	@cmake/deps.sh clang-format-14
	find $(FOLDERS) -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \
	  | xargs clang-format-14 -i

install: programs ## build the programs and the library, and install them to PREFIX (default /usr/local); DESTDIR is honoured
	cmake --install build/release --prefix "$$(realpath -sm $(subst $(eval) ,\ ,$(PREFIX)))"

uninstall: ## remove the files that the last `make install` wrote; DESTDIR as it was then
	set -o pipefail; sed 's|^|$(DESTDIR)|' build/release/install_manifest.txt | xargs -rd '\n' rm -fv

clean: ## delete build/
	rm -rf build

help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' Makefile | expand -t 12
	@echo "Variables: JOBS=$(JOBS) PREFIX=$(PREFIX) CMAKE_GENERATOR='$(CMAKE_GENERATOR)' WEFT_NO_INSTALL=1"

.PHONY: programs bench peers gpu-check chaos fuzz test test-slow test-verbs deps sanitize clang tidy docs format install uninstall clean help
