# Tests, sanitizers, the fuzzer, coverage.

# The longest first: the page in a browser, then the one that calls programs thousands of times, and others that call them.
TESTS = tests/test_page.sh $(BUILD)/tests/test_faults $(filter-out tests/test_page.sh,$(wildcard tests/test_*.sh)) \
    $(patsubst %.c,$(BUILD)/%,$(filter-out tests/test_faults.c,$(wildcard tests/test_*.c)))
THREADED_TESTS = $(addprefix $(BUILD)/tests/test_,threads reference company attn_texts serve)
SANITIZE = -O1 -g -fno-omit-frame-pointer -fno-sanitize-recover=all

$(addprefix $(BUILD)/tests/test_,attn attn_errors attn_inside attn_texts chat memory models snapshot speculate states): $(FACE)
$(BUILD)/tests/test_attn_faults: $(FACE)
$(BUILD)/tests/test_attn_faults $(BUILD)/tests/test_memory: $(BUILD)/tests/faults.o
$(BUILD)/tests/test_attn_faults $(BUILD)/tests/test_memory: LDFLAGS += $(WRAPS)
$(BUILD)/tests/test_threads: override LDFLAGS += -Wl,--wrap=parallel_for # to count the loops
$(BUILD)/tests/test_selfcheck: override LDFLAGS += -Wl,--wrap=session_resume # to see from which layer
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/programs.a $(BUILD)/engine.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)

# The programs with calls of the system that fail on request (tests/faults.c).
FAULTY = $(addprefix $(BUILD)/tests/faulty_,run study quantize)
WRAPPED := $(shell sed -n -e 's/^WRAP.\([a-z0-9_]*\), .*/\1/p' -e 's/^[A-Za-z_]* \**__wrap_\([a-z_]*\).*;$$/\1/p' tests/faults.c)
WRAPS = $(addprefix -Wl$(COMMA)--wrap=,$(WRAPPED))
$(BUILD)/tests/faulty_run: $(BUILD)/run.o
$(BUILD)/tests/faulty_study: $(BUILD)/study.o
$(BUILD)/tests/faulty_quantize: $(BUILD)/quantize.o
$(FAULTY): $(BUILD)/tests/faults.o $(BUILD)/programs.a $(BUILD)/engine.a
	$(CC) $(CFLAGS) $(LDFLAGS) $(WRAPS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)

FRESH = $(BUILD)/tests/fresh
test: $(BUILT) $(TESTS) $(FAULTY) $(FRESH)
	@FRESH='$(FRESH)' RUN='$(abspath $(RUN))' STUDY='$(abspath $(STUDY))' QUANTIZE='$(abspath $(QUANTIZE))' FAULTY='$(abspath $(BUILD))/tests/faulty_' \
	    tests/run.sh $(TESTS)

test-threaded: $(THREADED_TESTS) $(STUDY) $(FRESH)
	@env -u RUN FRESH='$(FRESH)' STUDY='$(abspath $(STUDY))' tests/run.sh $(THREADED_TESTS)

# Models whose inside is known: programs compiled to weights, published models if they are there, and what carries answers in
# the default one (docs/PROOFS.md).
prove: $(RUN) $(STUDY)
	@RUN='$(abspath $(RUN))' STUDY='$(abspath $(STUDY))' scripts/prove/prove.py

# AVX-512, AMX and AVX-VNNI on a CPU without them, by Debian's libsimde-dev.
SIMDE = -include tests/avx512.h -Wno-psabi
EMULATED_TESTS = $(addprefix build/emulated/tests/test_,products reference kernels kv_cache dtypes)
emulated:
	$(MAKE) BUILD=build/emulated AVX512="$(AVX2) -DEMULATED_AVX512 $(SIMDE)" VNNI= BF16= AMX=-DHAS_AMX \
	    AVXVNNI="$(SIMDE)" CFLAGS="-O1 -g -include tests/anycpu.h" \
	    $(EMULATED_TESTS)
	@tests/run.sh $(EMULATED_TESTS)

# The documents' commands on the default model would take ten minutes there, and say nothing that other tests do not.
sanitize:
	$(MAKE) test BUILD=build/sanitize RUN=build/sanitize/run CFLAGS="$(SANITIZE) -fsanitize=address,undefined" \
	    TESTS='$(patsubst build/%,build/sanitize/%,$(filter-out %/test_documents,$(TESTS)))'

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
# Of the time that these take to compile, UBSan takes half; it sees their loops in scalar.c.
build/sanitize/kernels/avx%.o $(FUZZ)/kernels/avx%.o: FLAGS += -fno-sanitize=undefined
# A call of a program within the process that checks it.
CALLED = $(call objects,$(addprefix tests/fuzz/,call.c run.c study.c serve.c quantize.c seeds.c))

fuzz:
	@echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | clang -fsanitize=fuzzer -x c -o /dev/null - 2>/dev/null || \
	    { echo "make fuzz needs clang with libFuzzer (Debian's clang and libclang-rt-14-dev)"; exit 1; }
	@$(MAKE) CC=clang BUILD=$(FUZZ) CFLAGS="$(FUZZ_CFLAGS)" $(FUZZ)/fuzzer
	@FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_JOBS=$(FUZZ_JOBS) tests/fuzz.sh $(FUZZ)

$(BUILD)/fuzzer: $(CALLED) $(call objects,tests/fuzz/*.c) $(BUILD)/programs.a $(BUILD)/engine.a
	$(CC) $(CFLAGS) -fsanitize=fuzzer $(LDFLAGS) $(FUZZ_WRAPS) -o $@ $(sort $(filter %.o,$^)) $(filter %.a,$^) $(LIBS)

$(BUILD)/tests/test_fuzz: $(CALLED)
$(BUILD)/tests/test_fuzz: LDFLAGS += $(FUZZ_WRAPS)

# Clang counts each condition of the source, both ways; gcc counts jumps, which -O0 already folds and splits. All processes
# of a program count into one mapped file (%c%m), so those that end by a signal count, too.
# Each program tells its counts from others' by its first counted function, so tests are counted, too.
COVERED = $(call objects,*.c $(addsuffix /*.c,$(filter-out kernels,$(ENGINE_ROOMS)) $(PROGRAM_ROOMS) tests))
NOT_COVERING = $(addprefix tests/test_,house.sh library.sh page.sh python.sh train.sh)
ifdef COVERAGE
$(COVERED): FLAGS += -fprofile-instr-generate -fcoverage-mapping -fprofile-update=atomic -mllvm -runtime-counter-relocation
LDFLAGS += -fprofile-instr-generate
endif
coverage:
	rm -rf build/coverage/counts
	-LLVM_PROFILE_FILE='$(CURDIR)/build/coverage/counts/%c%m.profraw' ATTN_LONG_TESTS=1 $(MAKE) test COVERAGE=1 \
	    CC='$(if $(findstring clang,$(CC)),$(CC),clang)' BUILD=build/coverage RUN=build/coverage/run \
	    TESTS='$(patsubst build/%,build/coverage/%,$(filter-out $(NOT_COVERING),$(TESTS)))'
	scripts/checks/coverage.py build/coverage tests/coverage.txt
