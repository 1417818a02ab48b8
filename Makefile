# make help lists the targets.  Everything is built below build/.

SHELL       := /bin/bash
CC          := gcc
PYTHON      := /usr/bin/python3
BUILD       := build
NGINX       := /usr/sbin/nginx
NGINX_SRC   := /usr/share/nginx/src

ROOMS       := core index state schedule kv_events service
LIBS        := -lpthread -lm

WARN        := -std=c11 -Wall -Wextra -Werror -Wno-unused-parameter \
               -Wmissing-prototypes -Wstrict-prototypes
CFLAGS_LIB  := $(WARN) -D_GNU_SOURCE -O2 -g -fno-strict-aliasing -Isrc
SANITIZE    := -fsanitize=address,undefined -fno-sanitize-recover=undefined \
               -fno-omit-frame-pointer -O1 -Wno-maybe-uninitialized

# The rooms a unit test of a room may be linked with: its own and those below.
# With a room comes what verifies it: t/check/ROOM, no part of the module.
LINK_core      := core
LINK_index     := core index
LINK_state     := core state
LINK_schedule  := core schedule
LINK_kv_events := core index kv_events
LINK_service   := $(ROOMS)

lib_sources   = $(foreach room,$(1),$(wildcard src/$(room)/*.c))
lib_objects   = $(patsubst src/%.c,$(BUILD)/$(1)/%.o,$(call lib_sources,$(2)))
check_sources = $(foreach room,$(1),$(wildcard t/check/$(room)/*.c))
test_objects  = $(call lib_objects,$(1),$(2)) \
                $(patsubst t/%.c,$(BUILD)/$(1)/%.o,$(call check_sources,$(2)))
HEADERS       := $(wildcard src/*/*.h)
CHECK_HEADERS := $(wildcard t/check/*/*.h)

.SUFFIXES:
.SECONDARY:
.DELETE_ON_ERROR:


# Objects of the rooms and of their checks, once a flavour: obj (plain), crash
# (with crash points), and both with sanitizers: asan, asan-crash.

define flavour_rules
$(BUILD)/$(1)/%.o: src/%.c $(HEADERS)
	@mkdir -p $$(@D)
	$(CC) $(CFLAGS_LIB) $(2) -c -o $$@ $$<

$(BUILD)/$(1)/check/%.o: t/check/%.c $(HEADERS) $(CHECK_HEADERS)
	@mkdir -p $$(@D)
	$(CC) $(CFLAGS_LIB) $(2) -It/check -c -o $$@ $$<
endef

$(eval $(call flavour_rules,obj,))
$(eval $(call flavour_rules,crash,-DSEL_CRASH_TEST))
$(eval $(call flavour_rules,asan,$(SANITIZE)))
$(eval $(call flavour_rules,asan-crash,$(SANITIZE) -DSEL_CRASH_TEST))


# Unit tests: t/unit/ROOM/NAME.c is linked with the objects of LINK_ROOM.
# The state room's tests are built with crash points.

UNIT := $(patsubst t/unit/%.c,$(BUILD)/unit/%,$(wildcard t/unit/*/*.c))

define unit_rules
$(BUILD)/unit/$(1)/%: t/unit/$(1)/%.c $(wildcard t/unit/*.h) \
        $$(call test_objects,$(2),$(LINK_$(1)))
	@mkdir -p $$(@D)
	$(CC) $(CFLAGS_LIB) $(3) -It/check -It/unit -o $$@ $$< \
	    $$(filter %.o,$$^) -lcmocka -ljansson $(LIBS)

$(BUILD)/unit-asan/$(1)/%: t/unit/$(1)/%.c $(wildcard t/unit/*.h) \
        $$(call test_objects,$(4),$(LINK_$(1)))
	@mkdir -p $$(@D)
	$(CC) $(CFLAGS_LIB) $(SANITIZE) $(3) -It/check -It/unit -o $$@ $$< \
	    $$(filter %.o,$$^) -lcmocka -ljansson $(LIBS)
endef

$(foreach room,core index schedule kv_events service,\
    $(eval $(call unit_rules,$(room),obj,,asan)))
$(eval $(call unit_rules,state,crash,-DSEL_CRASH_TEST,asan-crash))

# The number lists once more without SSE2.

$(BUILD)/unit/core/%-portable: t/unit/core/%.c $(wildcard t/unit/*.h) \
        $(call lib_sources,core) $(HEADERS)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_LIB) -DSEL_JSON_PORTABLE -It/unit -o $@ $< \
	    $(filter src/%.c,$^) -lcmocka -ljansson $(LIBS)

UNIT_ASAN := $(patsubst $(BUILD)/unit/%,$(BUILD)/unit-asan/%,$(UNIT))


UNIT += $(patsubst %,$(BUILD)/unit/core/%-portable,json_lists json_runs)


# Fuzz targets: t/fuzz/fuzz_NAME.c over t/fuzz/corpus/NAME.  With gcc they run
# the corpus and a number of mutations of it; with clang they are libFuzzer's.

FUZZ := $(patsubst t/fuzz/fuzz_%.c,%,$(wildcard t/fuzz/fuzz_*.c))

$(BUILD)/fuzz/%: t/fuzz/fuzz_%.c t/fuzz/main.c $(wildcard t/fuzz/*.h) \
        $(wildcard t/unit/*.h) \
        $(call test_objects,asan,$(ROOMS))
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_LIB) $(SANITIZE) -It/check -It/unit -It/fuzz -o $@ \
	    $(filter %.c %.o,$^) -ljansson $(LIBS)

$(BUILD)/libfuzzer/%: t/fuzz/fuzz_%.c $(wildcard t/fuzz/*.h) \
        $(wildcard t/unit/*.h) $(HEADERS) $(CHECK_HEADERS)
	@mkdir -p $(@D)
	clang -fsanitize=fuzzer,address,undefined -g -O1 -std=c11 -D_GNU_SOURCE \
	    -fno-strict-aliasing -Isrc -It/check -It/unit -It/fuzz -o $@ $< \
	    $(call lib_sources,$(ROOMS)) $(call check_sources,$(ROOMS)) \
	    -ljansson $(LIBS)

.PHONY: fuzz
FUZZ_TIME := 60
fuzz: $(FUZZ:%=$(BUILD)/libfuzzer/%)     ## each fuzz target for FUZZ_TIME s (clang)
	@for target in $(FUZZ); do \
	    mkdir -p $(BUILD)/fuzz-found/$$target; \
	    $(BUILD)/libfuzzer/$$target -max_total_time=$(FUZZ_TIME) \
	        -max_len=4096 -artifact_prefix=$(BUILD)/fuzz-found/$$target/ \
	        $(BUILD)/fuzz-found/$$target t/fuzz/corpus/$$target || exit 1; \
	done


# The module, for the packaged nginx.

SO := $(BUILD)/ngx_http_select_module.so

MODULE_SOURCES := ngx_select_module.c $(wildcard src/*/*.c)

.PHONY: build
build: deps-build $(SO)         ## the module; ends with nginx -t
	@$(call conf,check.conf)
	$(NGINX) -p $(CURDIR) -c $(abspath $(BUILD))/run/check.conf -t -q

# conf/nginx.conf for this build directory

define conf
mkdir -p $(BUILD)/run; sed 's|build/|$(BUILD)/|' conf/nginx.conf \
    > $(BUILD)/run/$(1)
endef

# configure runs again when a file comes or goes

$(BUILD)/nginx/files: FORCE
	@mkdir -p $(@D)
	@echo $(MODULE_SOURCES) $(HEADERS) | cmp -s - $@ || \
	    echo $(MODULE_SOURCES) $(HEADERS) > $@

$(BUILD)/nginx/Makefile: config module.map $(BUILD)/nginx/files
	@echo configure; here=$(CURDIR); out=$$(realpath $(BUILD)/nginx); \
	cd $(NGINX_SRC) && . ./conf_flags && \
	./configure "$${NGX_CONF_FLAGS[@]}" --builddir="$$out" \
	    --add-dynamic-module="$$here" \
	    --with-cc-opt="$$(dpkg-buildflags --get CFLAGS) -fPIC \
	                   $$(dpkg-buildflags --get CPPFLAGS)" \
	    --with-ld-opt="$$(dpkg-buildflags --get LDFLAGS) -fPIC" \
	    > "$$out/configure.log" 2>&1 || { cat "$$out/configure.log"; exit 1; }

$(SO): $(BUILD)/nginx/Makefile $(MODULE_SOURCES) $(HEADERS)
	@echo compile $(SO); \
	$(MAKE) -f $(abspath $(BUILD))/nginx/Makefile -C $(NGINX_SRC) modules \
	    > $(BUILD)/nginx/make.log 2>&1 || \
	    { grep -A5 -E 'error:|Error ' $(BUILD)/nginx/make.log; exit 1; }
	@cp $(BUILD)/nginx/ngx_http_select_module.so $@

.PHONY: FORCE
FORCE:


# Using it.

.PHONY: demo stop run
demo: deps-demo $(SO)           ## router, three simulated engines, a trace
	$(PYTHON) conf/demo/demo.py --build $(BUILD) --nginx $(NGINX)

stop:                           ## ends what `make demo` left running
	$(PYTHON) conf/demo/demo.py --build $(BUILD) --stop

run: deps-build $(SO)           ## the selector alone, in the foreground
	@$(call conf,foreground.conf)
	exec $(NGINX) -p $(CURDIR) -c $(abspath $(BUILD))/run/foreground.conf \
	    -g 'daemon off;'


# Tests.  The genuine Test::Nginx runs the data-driven suites where it is
# installed, the runner in t/lib/compat elsewhere.

export TEST_NGINX_BINARY := $(NGINX)

COMPAT = $(shell perl -MTest::Nginx::Socket -e1 2> /dev/null || \
             echo --lib t/lib/compat)

SUITES := $(wildcard t/*.t)

define aggregate
t/lib/aggregate.pl --lib t/lib $(COMPAT)
endef

.PHONY: test unit test-asan compat
test: deps-test build $(UNIT) $(FUZZ:%=$(BUILD)/fuzz/%)   ## everything
	CMOCKA_MESSAGE_OUTPUT=tap SEL_KILLS=10000 \
	TEST_NGINX_LOAD_MODULES=$(abspath $(SO)) \
	    $(aggregate) --group rooms t/lib/check-rooms.pl \
	        --group unit $(UNIT) \
	        $(foreach t,$(FUZZ),--commands fuzz-$(t) \
	            "FUZZ_RUNS=50000 $(BUILD)/fuzz/$(t) t/fuzz/corpus/$(t)/*") \
	        --group helpers $(wildcard t/lib/*.t) \
	        --group suites $(SUITES)

unit: deps-test $(UNIT)         ## the C unit tests alone
	CMOCKA_MESSAGE_OUTPUT=tap $(aggregate) --group unit $(UNIT)

# An nginx with AddressSanitizer and NGX_DEBUG_PALLOC (each pool allocation a
# malloc of its own) and the module in the same build; NGINX_TREE may name
# nginx's sources, else Debian's are fetched.

ASAN := $(BUILD)/nginx-asan

$(ASAN)/nginx: config module.map $(MODULE_SOURCES) $(HEADERS) \
        t/lib/own-nginx.sh
	t/lib/own-nginx.sh asan $(ASAN) $(NGINX_TREE)

# nginx leaks two blocks by design and every module defines ngx_modules; what
# was freed should not count as memory in use for long.

ASAN_SUITES := detect_leaks=0:detect_odr_violation=0
ASAN_SUITES := $(ASAN_SUITES):verify_asan_link_order=0:quarantine_size_mb=8
ASAN_SUITES := $(ASAN_SUITES):use_sigaltstack=0

test-asan: deps-test $(ASAN)/nginx $(UNIT_ASAN)   ## all of it with sanitizers
	rm -rf $(BUILD)/asan-reports
	mkdir -m 777 -p $(BUILD)/asan-reports
	CMOCKA_MESSAGE_OUTPUT=tap $(aggregate) --group unit $(UNIT_ASAN)
	TEST_NGINX_BINARY=$(abspath $(ASAN))/nginx \
	TEST_NGINX_LOAD_MODULES=$(abspath $(ASAN))/ngx_http_select_module.so \
	SEL_ASAN_LOG=$(abspath $(BUILD))/asan-reports ASAN_OPTIONS=$(ASAN_SUITES) \
	SEL_TEST_TIME=900 SEL_KILLS=500 $(aggregate) --group suites $(SUITES)


# The module and a few suites with another nginx, whose sources NGINX_TREE names.

COMPAT_NGINX  := $(BUILD)/nginx-compat
COMPAT_SUITES := $(patsubst %,t/%.t,routing workers select events lifecycle)

compat: deps-test               ## a smoke test with the nginx in NGINX_TREE
	@[ -d "$(NGINX_TREE)" ] || { \
	    echo "make compat NGINX_TREE=directory of nginx's sources"; exit 1; }
	t/lib/own-nginx.sh plain $(COMPAT_NGINX) $(NGINX_TREE)
	TEST_NGINX_BINARY=$(abspath $(COMPAT_NGINX))/nginx \
	TEST_NGINX_LOAD_MODULES=$(abspath $(COMPAT_NGINX)/ngx_http_select_module.so) \
	    $(aggregate) --group suites $(COMPAT_SUITES)


# Soak tests: minutes of work, behind which nothing may be left.

$(BUILD)/soak/%: t/soak/%.c $(wildcard t/soak/*.h t/unit/*.h) \
        $(call test_objects,obj,core state)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_LIB) -It/check -It/unit -o $@ $< $(filter %.o,$^) $(LIBS)

.PHONY: soak
soak: deps-test build $(BUILD)/soak/books   ## millions of bookings; nothing is left
	timeout 900 $(BUILD)/soak/books
	timeout 900 $(PYTHON) -B t/soak/http.py --build $(BUILD) --nginx $(NGINX)


# Benchmarks: see bench/README.md.

BENCH    := body index growth ingest replay zone books prompts load publish \
            cycle engine
BENCH_SO := $(patsubst %,$(BUILD)/bench/%.so,ngx_bench_answer_module turns)

$(BUILD)/bench/%: bench/%.c $(wildcard bench/*.h) \
        $(call lib_objects,obj,$(ROOMS))
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_LIB) -Ibench -o $@ $< $(filter %.o,$^) $(LIBS) -lzmq

$(BUILD)/bench/ngx_bench_answer_module.so: bench/answer.c \
        $(BUILD)/nginx/Makefile
	@mkdir -p $(@D)
	$(CC) -shared -fPIC -O2 -g -Wall -Wextra -Werror \
	    -Wno-unused-parameter -I$(BUILD)/nginx \
	    $(addprefix -I$(NGINX_SRC)/src/,core event event/modules os/unix \
	        http http/modules http/v2) -o $@ $<

$(BUILD)/bench/turns.so: bench/turns.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_LIB) -shared -fPIC -o $@ $<

.PHONY: bench
bench: deps-demo $(SO) $(BENCH_SO) $(BENCH:%=$(BUILD)/bench/%)  ## what things cost
	@echo "$$(date -I), $$(sed -n 's/^model name[^:]*: //p;T;q' \
	    /proc/cpuinfo), $$(nproc) cores"
	@for part in body index growth ingest zone books; do \
	    echo; timeout 60 $(BUILD)/bench/$$part || exit 1; done
	@echo; $(PYTHON) bench/trace.py tool --dir $(BUILD)/bench
	@$(PYTHON) bench/trace.py conversation --lines 6000 --dir $(BUILD)/bench
	@for trace in conversation-6000 tool-3993; do for engines in 64 7; do \
	    echo; timeout 60 $(BUILD)/bench/replay \
	        $(BUILD)/bench/$$trace-seed42.jsonl $$engines || exit 1; \
	    done; done
	@for part in selection stream crowd cycle router; do \
	    echo; timeout 120 $(PYTHON) bench/$$part.py --build $(BUILD) \
	        --nginx $(NGINX) || exit 1; done


# Debian packages: installs those of packages.txt that are missing.

PACKAGES = $(shell awk '$$1 ~ /^($(1))$$/ { print $$2 }' packages.txt)

.PHONY: deps-build deps-demo deps-test
deps-build: ; @$(call install,build)
deps-demo:  ; @$(call install,build|demo)
deps-test:  ; @$(call install,build|demo|test)

define install
missing=; \
for package in $(call PACKAGES,$(1)); do \
    dpkg-query -W -f '$${Status}' $$package 2> /dev/null \
        | grep -q 'ok installed' || missing="$$missing $$package"; \
done; \
[ -z "$$missing" ] || { echo "installing$$missing"; \
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
        apt-get install -qq -y --no-install-recommends $$missing; }
endef


.PHONY: clean help
clean:                          ## removes build/
	rm -rf $(BUILD)

help:
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 12
