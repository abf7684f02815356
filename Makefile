# make           the program: build/lapidary
# make run       installs what is missing, builds, lets the bundled model speak
# make test      everything that must hold (tests/run); with QUICK=1 what people at work want to know in minutes: gcc's
#                build with Pebble's cut, unit tests with fewer cases, the command line's but `cut` and `bench`,
#                clang-format. That leaves out clang, sanitizers, Arm, fuzzers, clang-tidy and the clients
# make regenerate  the cuts in src/generated again, by this version of the generator
# make bench     measurements; make soak: long fuzzing, long load, AVX-512 on an emulated processor
.PHONY: all run test bench soak regenerate format install clean

all: build/build.ninja
	@cmake --build build --target lapidary manual

build/build.ninja: CMakeLists.txt
	@scripts/install-dependencies build
	@cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DTESTS=OFF -DCMAKE_C_COMPILER=gcc >/dev/null

run: all
	@scripts/demo

test:
	@scripts/install-dependencies test
ifeq ($(QUICK),1)
	@tests/run quick
else
	@scripts/fetch-test-tokenizer
	@scripts/fetch-test-clients
	@tests/run
endif

bench: all
	@cmake --build build
	@bench/run

soak:
	@scripts/install-dependencies test
	@scripts/fetch-test-clients
	@tests/run soak
	@tests/emulate-avx512

# Built without the old cuts, so that none of them can stand in the way.
regenerate: all
	@cmake -S . -B build-regenerate -G Ninja -DTESTS=OFF -DCUTS=none >/dev/null
	@cmake --build build-regenerate --target lapidary
	@scripts/regenerate build-regenerate/lapidary

format:
	@clang-format -i include/*.h src/*/*.[ch] tests/*/*.[ch] bench/*.c examples/*.c

install: all
	@cmake --install build

clean:
	@rm -rf build build-*
