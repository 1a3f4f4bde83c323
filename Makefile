# SPDX-License-Identifier: MIT
#
# The few things one does, each as one word. The build itself is Meson's: see meson.build.
PREFIX ?= /usr/local
BUILD = gcc

help:
	@echo 'make demo       shows Sluice at work on a real video, within a minute'
	@echo 'make test       builds and runs all tests'
	@echo 'make install    installs library, headers and command (PREFIX=$(PREFIX), DESTDIR=)'
	@echo 'make asan       the tests again, looking for memory errors'
	@echo 'make tsan       the tests again, looking for data races'
	@echo 'make coverage   the tests again, counting the lines they run'
	@echo 'make bench      measures, beside other ways to hand frames over: figures.json, plots in figures/'
	@echo 'make site       builds the documents as a site, build-site/html'
	@echo 'make clean      removes what was built'

demo:
	@dev/setup demo
	@test -f build/build.ninja || meson setup build
	@ninja -C build tools/sluice examples/example-filter examples/example-gpu-filter
	@tools/demo/run

test:
	@dev/setup test
	@tests/all $(BUILD)

asan tsan coverage:
	@dev/setup ci
	@tests/run $@

install:
	@dev/setup build
	@test -f build-release/build.ninja || meson setup build-release --buildtype=release -Dtests=disabled
	@meson configure build-release -Dprefix=$(abspath $(PREFIX))
	@ninja -C build-release
	@meson install -C build-release --no-rebuild
	@test -n '$(DESTDIR)' || ldconfig 2>/dev/null || true

bench:
	@dev/setup bench
	@bench/run -o figures.json
	@bench/plot figures.json figures

site:
	@dev/setup site
	@docs/site/build

clean:
	rm -rf build build-*

.PHONY: help demo test asan tsan coverage install bench site clean
