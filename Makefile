# SPDX-License-Identifier: MIT
#
# The few things one does, each as one word. The build itself is Meson's: see meson.build.
PREFIX ?= /usr/local

help:
	@echo 'make demo       shows Sluice at work on a real video, within a minute'
	@echo 'make test       builds and runs all tests'
	@echo 'make install    installs library, headers and command (PREFIX=$(PREFIX), DESTDIR=)'
	@echo 'make asan       the tests again, looking for memory errors'
	@echo 'make tsan       the tests again, looking for data races'
	@echo 'make coverage   the tests again, counting the lines they run'
	@echo 'make clean      removes what was built'

demo:
	@tools/setup demo
	@test -f build/build.ninja || meson setup build
	@ninja -C build tools/sluice examples/example-filter
	@tools/demo/run

test:
	@tools/setup test
	@tests/run gcc

asan tsan coverage:
	@tools/setup ci
	@tests/run $@

install:
	@tools/setup build
	@test -f build-release/build.ninja || meson setup build-release --buildtype=release -Dtests=disabled
	@meson configure build-release -Dprefix=$(abspath $(PREFIX))
	@ninja -C build-release
	@meson install -C build-release --no-rebuild
	@test -n '$(DESTDIR)' || ldconfig 2>/dev/null || true

clean:
	rm -rf build build-release build-clang build-asan build-tsan build-coverage

.PHONY: help demo test asan tsan coverage install clean
