# SPDX-License-Identifier: MIT
#
# Shortcuts for common tasks. Meson does the build: see meson.build.
PREFIX ?= /usr/local
LIBDIR ?= lib
BUILD = gcc

help:
	@echo 'make demo       demonstrate Sluice with a real video, within a minute'
	@echo 'make demo-live  paint a video with a neural network while it plays, within three minutes'
	@echo 'make test       build and run all tests'
	@echo 'make install    install library, headers and command (PREFIX=$(PREFIX), LIBDIR=$(LIBDIR), DESTDIR=)'
	@echo 'make asan       run the tests with the address sanitizer'
	@echo 'make tsan       run the tests with the thread sanitizer'
	@echo 'make coverage   run the tests and count the lines that they execute'
	@echo 'make bench      compare with other ways to share frames: figures.json, plots in figures/'
	@echo 'make site       build the documentation as a site, build-site/html'
	@echo 'make wheel      build wheels for Python, in dist/'
	@echo 'make windows    build the command and the Python package for Windows, in dist/'
	@echo 'make deb        build Debian packages, in dist/'
	@echo 'make release    make a release, in dist/ (VERSION=x.y.z, DRY_RUN=yes)'
	@echo 'make clean      remove everything that was built'

demo:
	@dev/setup demo
	@test -f build/build.ninja || meson setup build
	@ninja -C build tools/sluice examples/example-filter examples/example-gpu-filter
	@tools/demo/run

demo-live:
	@dev/setup demo-live
	@examples/live/demo

test:
	@dev/setup test
	@tests/all $(BUILD)

asan tsan coverage:
	@dev/setup ci
	@tests/run $@

install:
	@dev/setup build
	@test -f build-release/build.ninja || meson setup build-release --buildtype=release -Dtests=disabled
	@meson configure build-release -Dprefix="$$(realpath -ms '$(PREFIX)')" -Dlibdir='$(LIBDIR)'
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

wheel:
	@packages/wheel dist

windows:
	@packages/windows/build dist

deb:
	@dev/setup deb
	@packages/deb dist

release:
	@dev/setup deb
	@dev/setup site
	@packages/release $(if $(DRY_RUN),--dry-run) $(VERSION)

clean:
	rm -rf build build-* dist

.PHONY: help demo demo-live test asan tsan coverage install bench site wheel windows deb release clean
