# SPDX-License-Identifier: Apache-2.0
# Thin: every target says in one line what CMake, ctest or a script does. `make` alone lists them.
JOBS ?= $(shell nproc)
# Many tests wait, most of the time: two and a half at a time take a core.
TESTS ?= $(shell expr $(JOBS) \* 5 / 2)

.PHONY: check-debian12 check-debian13
.PHONY: help deps build check combos check-docs lint format demo bench bench-peers
.PHONY: claims claims-long claims-mutants soak mutants
.PHONY: soak-ranks soak-parts check-frameworks check-engines check-engines13 check-browser
.PHONY: check-arm64 packages-arm64
.PHONY: install clean packages wheels rtl rtl-report
.DELETE_ON_ERROR:

help: ## list the targets
	@grep -E '^[a-z0-9-]+:.*##' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 14

deps: ## install what is missing of packages.txt
	@tools/deps.sh packages.txt

build: deps ## release build: build/release/shoal and libshoal.so
	@cmake --preset release >/dev/null
	@cmake --build build/release -j $(JOBS) $(if $(CI),-- --quiet)

check: deps ## lint, build, every test; T=codec runs those whose name matches
	@cmake --preset dev >/dev/null
	@cmake --build build/dev -j $(JOBS) $(if $(CI),-- --quiet)
	@ctest --test-dir build/dev -j $(TESTS) --output-on-failure $(if $(T),-R '$(T)') \
		--output-junit check.xml; status=$$?; tools/skipped.py build/dev/check.xml; exit $$status

lint: deps ## formatting, layers, sizes, rules and clang-tidy; all warnings are errors
	@cmake --preset dev >/dev/null
	@tools/tidy.sh build/dev
	@ctest --test-dir build/dev -j $(JOBS) --output-on-failure -L lint

format: ## rewrite C files in the house format
	@tools/check_format.sh --fix

combos: build ## every two options in one job, three of six (30 minutes); S=2: two only; B=dev
	@SHOAL=build/$(or $(B),release)/shoal tests/combos/combos.py --quiet --again $(or $(A),0) \
		$(if $(REST),--part commit/6 --rest)
	@SHOAL=build/$(or $(B),release)/shoal tests/combos/combos.py --of sim --quiet \
		$(if $(REST),--part commit/4 --rest)
	@[ "$(S)" = 2 ] || SHOAL=build/release/shoal tests/combos/combos.py --quiet --strength 3

check-debian12: ## make check on a bare Debian 12, made in a folder; not as root (12 minutes)
	@tools/check_debian.sh bookworm

check-debian13: ## the same on Debian 13
	@tools/check_debian.sh trixie

check-docs: build ## run the commands that README and docs show, compare what they print
	@tools/check_docs.py $(if $(T),--page '$(T)')

check-frameworks: build ## Python tests with today's PyTorch and frameworks (20 minutes)
	@tools/frameworks/check.py build/release build/frameworks

check-engines: build ## under sshd, Slurm, Open MPI, Ray on four hosts made here; as root; T=slurm
	@tools/deps.sh packages-engines.txt
	@tests/engines/check.py build/release $(T)

check-engines13: ## the same under those of Debian 13 (Open MPI 5, Slurm 24), made in a folder
	@tools/check_debian.sh trixie check-engines $(if $(T),'T=$(T)')

check-browser: deps ## pages in Chromium, metrics by Prometheus (5 minutes); T=report one
	@tools/deps.sh packages-browser.txt
	@/usr/bin/python3 -m pip install -q --no-deps --target build/browser --upgrade \
		-r packages-browser-python.txt || echo "axe-core could not be fetched: checks go without it"
	@cmake --preset dev >/dev/null
	@cmake --build build/dev -j $(JOBS) --target shoal_command $(if $(CI),-- --quiet)
	@ctest --test-dir build/dev -C browser \
		$(if $(T),-L browser -R '$(T)',-R '^(browser/|cli/metrics_test)') --output-on-failure \
		--output-junit browser.xml; status=$$?; tools/skipped.py build/dev/browser.xml; exit $$status

check-arm64: deps ## 64-bit ARM by cross build, under qemu, and beside x86-64; T=name
	@JOBS=$(JOBS) tools/arm64.sh check '$(T)'

demo: build ## train three ways in a lab of shaped links and compare (5 minutes)
	@bench/e2e/demo

bench: build ## micro and end-to-end benchmarks of this machine
	@bench/run

bench-peers: build ## Gloo, Open MPI and Shoal in turn in one lab
	@tools/deps.sh packages-peers.txt
	@bench/peers/run

claims: build ## measure the timed claims (45 minutes); C=NAME one; Q=1 quick
	@tools/deps.sh packages-peers.txt
	@bench/claims/run.py $(if $(C),--only $(C)) $(if $(Q),--quick)

claims-long: build ## measure the accuracy claims (hours, resumable); C=NAME one
	@bench/claims/run.py --long $(if $(C),--only $(C))

claims-mutants: build ## quick claims, each on a library with a fault to be noticed; C=NAME one
	@bench/claims/mutants.py $(if $(C),--only $(C))

soak: build ## long search: fuzzing, tests under ever new seeds, soak-ranks; MINUTES=60
	@tools/soak.sh $(or $(MINUTES),60)

soak-ranks: build ## kill, stop, cut and slow ranks of runs at random; MINUTES=60 SEED=1 ANY=1
	@tools/soak_ranks.py $(or $(MINUTES),60) $(SEED) $(if $(ANY),any)

soak-parts: build ## networks of 4 and 5 ranks that fall into parts, every way; ROUNDS=1 SEED=1
	@tools/parts.py --rounds $(or $(ROUNDS),1) --jobs $(JOBS) $(if $(SEED),--seed $(SEED))

mutants: deps ## small faults in src/: which of them no test notices; ROOM=a,b N=20 SEED=1 SINCE=
	@nice tools/mutants/mutants.py --jobs $(JOBS) $(if $(ROOM),--room $(ROOM)) \
		$(if $(N),--number $(N)) $(if $(SEED),--seed $(SEED)) $(if $(SINCE),--since $(SINCE))

rtl: ## build and check the hardware blocks (15 minutes)
	@tools/deps.sh packages-rtl.txt || true
	@innet/rtl/check.sh

rtl-report: ## size, clock and rates of the hardware: post-synthesis estimates
	@tools/deps.sh packages-rtl.txt || true
	@innet/rtl/report.py

install: build ## install command, library and headers; PREFIX=/usr/local DESTDIR=
	@cmake --install build/release $(if $(PREFIX),--prefix $(PREFIX))

packages: build ## wheel and Debian packages, into build/packages
	@tools/deps.sh packages-deb.txt
	@tools/make_wheel.py --build build/release --out build/packages
	@tools/make_debs.sh build/packages

wheels: deps ## wheels for glibc 2.29 (libraries of Debian 11) and 64-bit ARM, into build/packages
	@JOBS=$(JOBS) tools/manylinux.sh build/packages
	@JOBS=$(JOBS) tools/arm64.sh wheel

packages-arm64: ## Debian packages for 64-bit ARM, in a Debian made for it; as root (15 minutes)
	@JOBS=$(JOBS) tools/arm64.sh debs

clean: ## remove all builds
	rm -rf build
