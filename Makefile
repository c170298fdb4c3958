# make              ./run, ./study, ./quantize   make test       all tests, offline
# make debug        build/debug/, -O0            make sanitize   the tests under ASan and UBSan
# make bench        speed against the machine's  make tsan       the threaded ones under TSan
# make install      programs, library, attn.h, man pages, completions and the default model, under PREFIX;
#                   make uninstall takes them away again
# make fuzz         the programs called at random for a minute (FUZZ_SECONDS), under ASan and UBSan
# make wasm         web/attn.wasm, the engine in a page, by Debian's clang-19; make test-wasm tests it with node
# make coverage     the branches that the tests take, and the reasons for those that they do not
#
# OPENMP=1 makes build/openmp/run, whose loops run on OpenMP instead of our own pool; WERROR=1 turns
# warnings into errors; CC=clang, CFLAGS=… as usual.

COMMA = ,

# All cores work, unless -j, here or in the environment, says how many. After `clean` the order matters.
ifeq ($(MAKELEVEL)$(filter -j% --jobserver%,$(shell echo "$$MAKEFLAGS"))$(filter clean,$(MAKECMDGOALS)),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN || echo 1)
endif

# -g1: lines for backtraces and profiles. Variables, which `make debug` has, take a quarter of the time.
CFLAGS ?= -O3 -g1
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR ?= $(PREFIX)/share/man
BUILD ?= $(if $(OPENMP),build/openmp,build)
RUN ?= $(if $(OPENMP),build/openmp/run,run)
STUDY ?= $(patsubst %run,%study,$(RUN))
QUANTIZE ?= $(patsubst %run,%quantize,$(RUN))

WARNINGS = -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
    -Wno-missing-field-initializers # what a row of a table leaves out is zero
FLAGS = -std=c11 -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -ffp-contract=off -I. -MMD -MP $(WARNINGS)
# The library shows attn.h's names alone; one set of objects serves it, shared or not, and the programs.
FLAGS += -fvisibility=hidden
FLAGS += $(if $(WERROR),-Werror) $(if $(OPENMP),-fopenmp)
LIBS = -lm -lpthread $(if $(OPENMP),-fopenmp)

COMMA = ,

# Instruction sets beyond the compiler's default get their flags here, file by file: one binary for all.
ARCH := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
ifeq ($(ARCH),x86_64)
# A set's lanes are those of its flags (kernels/lanes.h), so none may have more, whatever CFLAGS say.
$(BUILD)/kernels/avx2.o $(BUILD)/kernels/avx2_int8.o: FLAGS += $(AVX2)
$(BUILD)/kernels/avxvnni_int8.o: FLAGS += $(AVX2) $(AVXVNNI)
$(BUILD)/kernels/avx512.o: FLAGS += $(AVX512)
$(BUILD)/kernels/avx512_int8.o: FLAGS += $(AVX512) $(VNNI)
$(BUILD)/kernels/avx512_int8_bf16.o: FLAGS += $(AVX512) $(VNNI) $(BF16)
$(BUILD)/kernels/avx512_int8_amx.o: FLAGS += $(AVX512) $(VNNI) $(BF16) $(AMX)
$(BUILD)/packing/sums_avx2.o: FLAGS += $(AVX2)
$(BUILD)/bench/peaks.o: FLAGS += $(AMX)
AVX2 = -mavx2 -mfma -mf16c -mno-avx512f
AVX512 = -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c
VNNI = -mavx512vnni
# Compilers or assemblers before 2021 do not know these two; they leave the sets out.
if_known = $(shell echo '__asm__("$(2)");' | $(CC) $(1) -x c -c -o /dev/null - >/dev/null 2>&1 && echo $(1))
BF16 := $(call if_known,-mavx512bf16,vdpbf16ps %zmm0$(COMMA) %zmm0$(COMMA) %zmm0)
AMX := $(call if_known,-DHAS_AMX,tdpbf16ps %tmm0$(COMMA) %tmm1$(COMMA) %tmm2)
AVXVNNI := $(call if_known,-mavxvnni,{vex} vpdpbusd %ymm0$(COMMA) %ymm0$(COMMA) %ymm0)
else ifeq ($(ARCH),aarch64)
$(BUILD)/kernels/neondot.o $(BUILD)/kernels/neondot_int8.o: FLAGS += -march=armv8.2-a+dotprod
endif
ifeq ($(ARCH),wasm32)
# What every browser with SIMD has. Small, and fast where the time goes.
FLAGS += -msimd128 -mbulk-memory -mnontrapping-fptoint -msign-ext -Wno-enum-float-conversion
FLAGS += -D_WASI_EMULATED_MMAN -D_WASI_EMULATED_SIGNAL -D_WASI_EMULATED_PROCESS_CLOCKS
$(BUILD)/kernels/wasm.o: FLAGS += -O2
$(BUILD)/tests/%.o: FLAGS += -include tests/wasi.h
# What no module has: sizes of more than 32 bits pass there unseen.
$(BUILD)/tests/%.o $(addprefix $(BUILD)/checkpoint/,folder_tensors.o zip.o): FLAGS += -Wno-shorten-64-to-32
else
FLAGS += -fPIC
endif

objects = $(patsubst %.c,$(BUILD)/%.o,$(wildcard $(1)))
ENGINE = $(filter-out $(addprefix $(BUILD)/,attn.o run.o study.o quantize.o),$(call objects,*.c text/*.c checkpoint/*.c kernels/*.c))
# What only programs need: the engine neither prints nor reads options.
PROGRAMS = $(call objects,cli/*.c measures/*.c web/*.c)
# What only quantize needs.
PACKING = $(call objects,packing/*.c)
# The longest first: those that call the programs.
TESTS = $(wildcard tests/test_*.sh) $(patsubst %.c,$(BUILD)/%,$(wildcard tests/test_*.c))
THREADED_TESTS = $(addprefix $(BUILD)/tests/test_,threads reference attn serve)
SANITIZE = -O1 -g -fno-omit-frame-pointer -fno-sanitize-recover=all

VERSION := $(shell sed -n 's/^\#define ATTN_VERSION "\(.*\)"/\1/p' attn.h)
# A new second number may change what attn.h says.
SONAME = libattn.so.$(basename $(VERSION))
SHARED = $(BUILD)/libattn.so.$(VERSION)
BUILT = $(RUN) $(STUDY) $(QUANTIZE) $(BUILD)/libattn.a $(SHARED)

all: $(BUILT) model.bin

# The default model, where ./run model.bin finds it.
model.bin: weights/model.gguf
	ln -sf $< $@

$(RUN): $(BUILD)/run.o $(BUILD)/programs.a $(BUILD)/engine.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(STUDY): $(BUILD)/study.o $(call objects,views/*.c) $(BUILD)/programs.a $(BUILD)/engine.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(QUANTIZE): $(BUILD)/quantize.o $(PACKING) $(BUILD)/programs.a $(BUILD)/engine.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

# Programs and tests link the engine with all its names; the library is one object in which all others are local.
$(BUILD)/engine.a: $(ENGINE)
	rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/libattn.a: $(ENGINE) $(BUILD)/attn.o
	$(CC) -r -nostdlib -o $(BUILD)/libattn.o $^
	$(shell $(CC) -print-prog-name=objcopy) --localize-hidden $(BUILD)/libattn.o
	rm -f $@ && $(AR) rcs $@ $(BUILD)/libattn.o

$(SHARED): $(ENGINE) $(BUILD)/attn.o
	$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,$(SONAME) -o $@ $^ $(LIBS)
	ln -sf $(@F) $(BUILD)/$(SONAME) && ln -sf $(@F) $(BUILD)/libattn.so

$(BUILD)/programs.a: $(PROGRAMS)
	rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(FLAGS) -c -o $@ $<

# No compiler sees what page.c has the assembler put into it.
$(BUILD)/web/page.o: $(wildcard web/*.js web/*.css web/*.html web/*.wasm)

$(BUILD)/tests/test_attn: $(BUILD)/attn.o
$(BUILD)/tests/test_attn_faults: $(BUILD)/attn.o $(BUILD)/tests/faults.o
$(BUILD)/tests/test_attn_faults: LDFLAGS += $(WRAPS)
$(BUILD)/tests/test_packing $(BUILD)/tests/test_mixes: $(PACKING)
$(BUILD)/tests/test_threads: LDFLAGS += -Wl,--wrap=parallel_for # to count the loops
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/programs.a $(BUILD)/engine.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)

# The programs with calls of the system that fail on request (tests/faults.c).
FAULTY = $(addprefix $(BUILD)/tests/faulty_,run study quantize)
WRAPPED := $(shell sed -n -e 's/^WRAP.\([a-z0-9_]*\), .*/\1/p' -e 's/^[A-Za-z_]* \**__wrap_\([a-z_]*\).*;$$/\1/p' tests/faults.c)
WRAPS = $(addprefix -Wl$(COMMA)--wrap=,$(WRAPPED))
$(BUILD)/tests/faulty_run: $(BUILD)/run.o
$(BUILD)/tests/faulty_study: $(BUILD)/study.o $(call objects,views/*.c)
$(BUILD)/tests/faulty_quantize: $(BUILD)/quantize.o $(PACKING)
$(FAULTY): $(BUILD)/tests/faults.o $(BUILD)/programs.a $(BUILD)/engine.a
	$(CC) $(CFLAGS) $(LDFLAGS) $(WRAPS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)

$(BUILD)/bench/bench: $(addprefix $(BUILD)/,bench/measure.o bench/peaks.o bench/report.o bench/shapes.o)
$(BUILD)/bench/%: $(BUILD)/bench/%.o $(BUILD)/programs.a $(BUILD)/engine.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)

FRESH = $(BUILD)/tests/fresh
test: $(BUILT) $(TESTS) $(FAULTY) $(FRESH)
	@FRESH='$(FRESH)' RUN='$(abspath $(RUN))' STUDY='$(abspath $(STUDY))' QUANTIZE='$(abspath $(QUANTIZE))' FAULTY='$(abspath $(BUILD))/tests/faulty_' \
	    tests/run.sh $(TESTS)

test-threaded: $(THREADED_TESTS) $(STUDY) $(FRESH)
	@env -u RUN FRESH='$(FRESH)' STUDY='$(abspath $(STUDY))' tests/run.sh $(THREADED_TESTS)

# AVX-512, AMX and AVX-VNNI on a CPU without them, by Debian's libsimde-dev.
SIMDE = -include tests/avx512.h -Wno-psabi
EMULATED_TESTS = $(addprefix build/emulated/tests/test_,dtypes kernels products kv_cache reference)
emulated:
	$(MAKE) BUILD=build/emulated AVX512="$(AVX2) -DEMULATED_AVX512 $(SIMDE)" VNNI= BF16= AMX=-DHAS_AMX \
	    AVXVNNI="$(SIMDE)" CFLAGS="-O1 -g -include tests/anycpu.h" \
	    $(EMULATED_TESTS)
	for test in $(EMULATED_TESTS); do $$test || exit; done

debug:
	$(MAKE) BUILD=build/debug RUN=build/debug/run CFLAGS="-O0 -g"

sanitize:
	$(MAKE) test BUILD=build/sanitize RUN=build/sanitize/run CFLAGS="$(SANITIZE) -fsanitize=address,undefined"

tsan:
	$(MAKE) test-threaded BUILD=build/tsan RUN=build/tsan/run CFLAGS="$(SANITIZE) -fsanitize=thread"

# Calls of run, quantize and every view, changed by clang's libFuzzer (tests/fuzz): FUZZ_SECONDS of them in FUZZ_JOBS processes.
FUZZ = build/fuzz
FUZZ_CFLAGS = -O1 -g -fno-omit-frame-pointer -fno-sanitize-recover=all -fsanitize=fuzzer-no-link,address,undefined
FUZZ_WRAPS = $(addprefix -Wl$(COMMA)--wrap=,isatty catch_signals clock_seed open fopen now_ms peak_rss_bytes mmap munmap getentropy \
    server_listen server_run tokenizer_encode_marked)
FUZZ_SECONDS ?= 60
FUZZ_JOBS ?= 1
# The kernels' loops tell nothing new, and would take most of the time.
$(FUZZ)/kernels/%.o: FLAGS += -fno-sanitize=fuzzer-no-link
# UBSan takes a minute to compile these; scalar.c has it.
$(FUZZ)/kernels/avx%.o: FLAGS += -fno-sanitize=fuzzer-no-link,undefined
# A call of a program within the process that checks it.
CALLED = $(call objects,$(addprefix tests/fuzz/,call.c run.c study.c serve.c quantize.c seeds.c) views/*.c packing/*.c)

# The engine in a page, web/attn.wasm, which stands in the tree: only who changes it needs this compiler. Its objects are
# linked one by one, by name, so that its bytes depend on the sources and the compiler's version alone.
WASM_CC ?= clang-19
WASM = $(MAKE) --no-print-directory BUILD=build/wasm CC='$(WASM_CC) --target=wasm32-wasi' CFLAGS=-Oz
# What wasm/ has in its own way (system.c, threads.c, process.c), or leaves out (left_out.c).
NOT_IN_MODULE = threads.o kernels/scalar.o $(patsubst %.c,%.o,$(wildcard text/jinja*.c text/*_json.c)) \
    $(addprefix text/,template.o pipeline.o unigram.o normalize.o mappings.o vocab_keys.o) \
    $(filter-out checkpoint/checkpoint.o checkpoint/gguf.o checkpoint/keys.o,$(patsubst %.c,%.o,$(wildcard checkpoint/*.c))) \
    $(addprefix views/,case.o compare.o dump.o pagefile.o selfcheck.o serve.o) \
    $(addprefix cli/,chat.o editor.o talk.o http.o server.o output.o npy.o npz.o process.o info.o summary.o)
MODULE = $(sort $(filter-out $(addprefix $(BUILD)/,$(NOT_IN_MODULE)), \
    $(ENGINE) $(call objects,wasm/*.c views/*.c cli/*.c measures/*.c)))

ifeq ($(ARCH),wasm32)
$(MODULE): Makefile # whose flags make the bytes
endif

HAS_WASM = echo 'int main(void) { return 0; }' | $(WASM_CC) --target=wasm32-wasi -x c -o /dev/null - 2>/dev/null
NO_WASM = echo "make $@ needs Debian's clang-19, lld-19, wasi-libc and libclang-rt-19-dev-wasm32"; exit 1
wasm:
	@$(HAS_WASM) || { $(NO_WASM); }
	@+$(WASM) build/wasm/attn.wasm
	cp build/wasm/attn.wasm web/attn.wasm

$(BUILD)/attn.wasm: $(MODULE)
	$(CC) -mexec-model=reactor -o $@ $^ -Wl,-O2,--gc-sections,--strip-all,--build-id=none,-z,stack-size=1048576

# The tests of arithmetic and files under node's WASI: the engine as in the module, but with files and all formats.
WASM_TESTS = $(addprefix build/wasm/tests/test_,dtypes kernels products kv_cache checkpoint vocab reference tokenizer)
test-wasm:
	@$(HAS_WASM) || { $(NO_WASM); }
	@node --version >/dev/null 2>&1 || { echo "make test-wasm needs node"; exit 1; }
	@+$(WASM) $(addsuffix .wasm,$(WASM_TESTS))
	for test in $(WASM_TESTS); do node --no-warnings tests/wasi.mjs $$test.wasm || failed=1; done; [ -z "$$failed" ]

$(BUILD)/tests/%.wasm: $(BUILD)/tests/%.o $(BUILD)/tests/wasi.o $(BUILD)/wasm/threads.o $(filter-out $(BUILD)/threads.o,$(ENGINE))
	$(CC) -o $@ $(sort $^) -Wl,--gc-sections,-z,stack-size=1048576,--initial-memory=67108864

fuzz:
	@echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | clang -fsanitize=fuzzer -x c -o /dev/null - 2>/dev/null || \
	    { echo "make fuzz needs clang with libFuzzer (Debian's clang and libclang-rt-14-dev)"; exit 1; }
	@$(MAKE) CC=clang BUILD=$(FUZZ) CFLAGS="$(FUZZ_CFLAGS)" $(FUZZ)/fuzzer
	@FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_JOBS=$(FUZZ_JOBS) tests/fuzz.sh $(FUZZ)

$(BUILD)/fuzzer: $(CALLED) $(call objects,tests/fuzz/*.c) $(BUILD)/programs.a $(BUILD)/engine.a
	$(CC) $(CFLAGS) -fsanitize=fuzzer $(LDFLAGS) $(FUZZ_WRAPS) -o $@ $(sort $(filter %.o,$^)) $(filter %.a,$^) $(LIBS)

$(BUILD)/tests/test_asks: $(call objects,views/*.c)
$(BUILD)/tests/test_fuzz: $(CALLED)
$(BUILD)/tests/test_fuzz: LDFLAGS += $(FUZZ_WRAPS)
# Clang counts each condition of the source, both ways; gcc counts jumps, which -O0 already folds and splits. All processes
# of a program count into one mapped file (%c%m), so those that end by a signal count, too.
# Each program tells its counts from others' by its first counted function, so tests are counted, too.
COVERED = $(call objects,checkpoint/*.c text/*.c cli/*.c views/*.c web/*.c tests/*.c) \
    $(addprefix $(BUILD)/,tokenizer.o error.o run.o study.o)
NOT_COVERING = $(addprefix tests/test_,house.sh library.sh page.sh train.sh)
ifdef COVERAGE
$(COVERED): FLAGS += -fprofile-instr-generate -fcoverage-mapping -fprofile-update=atomic -mllvm -runtime-counter-relocation
LDFLAGS += -fprofile-instr-generate
endif
coverage:
	rm -rf build/coverage/counts
	-LLVM_PROFILE_FILE='$(CURDIR)/build/coverage/counts/%c%m.profraw' ATTN_LONG_TESTS=1 $(MAKE) test COVERAGE=1 \
	    CC='$(if $(findstring clang,$(CC)),$(CC),clang)' BUILD=build/coverage RUN=build/coverage/run \
	    TESTS='$(patsubst build/%,build/coverage/%,$(filter-out $(NOT_COVERING),$(TESTS)))'
	scripts/coverage.py build/coverage tests/coverage.txt

bench: $(BUILD)/bench/bench
	$<

# What is installed, and where to. The programs look for the model at ../share/attn, as seen from their folder.
COMPLETIONS = scripts/completions/attn
INSTALLED = $(RUN):$(PREFIX)/bin/attn-run $(STUDY):$(PREFIX)/bin/attn-study $(QUANTIZE):$(PREFIX)/bin/attn-quantize \
    weights/model.gguf:$(PREFIX)/share/attn/model.gguf attn.h:$(INCLUDEDIR)/attn.h \
    $(BUILD)/libattn.a:$(LIBDIR)/libattn.a $(SHARED):$(LIBDIR)/$(notdir $(SHARED)) \
    docs/attn-run.1:$(MANDIR)/man1/attn-run.1 docs/attn-study.1:$(MANDIR)/man1/attn-study.1 \
    docs/attn-quantize.1:$(MANDIR)/man1/attn-quantize.1 \
    docs/attn.3:$(MANDIR)/man3/attn.3 $(COMPLETIONS).zsh:$(PREFIX)/share/zsh/site-functions/_attn \
    $(foreach name,attn-run attn-study attn-quantize,$(COMPLETIONS).bash:$(PREFIX)/share/bash-completion/completions/$(name) \
    $(COMPLETIONS).fish:$(PREFIX)/share/fish/vendor_completions.d/$(name).fish)
PKGCONFIG = $(LIBDIR)/pkgconfig/attn.pc
# A program that is linked with what pkg-config says finds the library again, where the system does not look for it.
RPATH = $(if $(filter /lib /lib64 /usr/lib /usr/lib64 /usr/lib/%-linux-gnu,$(LIBDIR)),, -Wl,-rpath,$${libdir})
LINKS = $(LIBDIR)/libattn.so $(LIBDIR)/$(SONAME)

install: $(BUILT)
	@for file in $(INSTALLED); do \
	    from=$${file%%:*} to=$(DESTDIR)$${file#*:} mode=644; if [ -x $$from ]; then mode=755; fi; \
	    echo "install $$to"; install -D -m $$mode $$from $$to || exit 1; \
	done
	for link in $(LINKS); do ln -sf $(notdir $(SHARED)) $(DESTDIR)$$link || exit 1; done
	mkdir -p $(DESTDIR)$(dir $(PKGCONFIG))
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' \
	    -e 's|@VERSION@|$(VERSION)|' -e 's|@LIBS@|$(strip $(LIBS))|' -e 's|@RPATH@|$(RPATH)|' attn.pc.in >$(DESTDIR)$(PKGCONFIG)

uninstall:
	rm -f $(addprefix $(DESTDIR),$(foreach file,$(INSTALLED),$(lastword $(subst :, ,$(file)))) $(LINKS) $(PKGCONFIG))
	-rmdir $(DESTDIR)$(PREFIX)/share/attn

clean:
	rm -rf build run study quantize model.bin

.PHONY: all test test-threaded emulated debug sanitize tsan wasm test-wasm fuzz coverage bench install uninstall clean
.PRECIOUS: $(BUILD)/%.o
-include $(wildcard $(BUILD)/*.d $(BUILD)/*/*.d $(BUILD)/*/*/*.d)
