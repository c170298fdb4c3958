# make              ./run and ./study            make test       all tests, offline
# make debug        build/debug/, -O0            make sanitize   the tests under ASan and UBSan
# make bench        speed against the machine's  make tsan       the threaded ones under TSan
# make install      attn-run, attn-study and their man pages, under PREFIX
#
# OPENMP=1 makes build/openmp/run, whose loops run on OpenMP instead of our own pool; WERROR=1 turns
# warnings into errors; CC=clang, CFLAGS=… as usual.

# All cores work, unless -j, here or in the environment, says how many. After `clean` the order matters.
ifeq ($(MAKELEVEL)$(filter -j% --jobserver%,$(shell echo "$$MAKEFLAGS"))$(filter clean,$(MAKECMDGOALS)),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN || echo 1)
endif

# -g1: lines for backtraces and profiles. Variables, which `make debug` has, take a quarter of the time.
CFLAGS ?= -O3 -g1
PREFIX ?= /usr/local
BUILD ?= $(if $(OPENMP),build/openmp,build)
RUN ?= $(if $(OPENMP),build/openmp/run,run)
STUDY ?= $(patsubst %run,%study,$(RUN))

WARNINGS = -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
FLAGS = -std=c11 -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -ffp-contract=off -I. -MMD -MP $(WARNINGS)
FLAGS += $(if $(WERROR),-Werror) $(if $(OPENMP),-fopenmp)
LIBS = -lm -lpthread $(if $(OPENMP),-fopenmp)

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
$(BUILD)/bench/peaks.o: FLAGS += $(AMX)
AVX2 = -mavx2 -mfma -mf16c -mno-avx512f
AVX512 = -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c
VNNI = -mavx512vnni
# Compilers or assemblers before 2021 do not know these two; they leave the sets out.
COMMA = ,
if_known = $(shell echo '__asm__("$(2)");' | $(CC) $(1) -x c -c -o /dev/null - >/dev/null 2>&1 && echo $(1))
BF16 := $(call if_known,-mavx512bf16,vdpbf16ps %zmm0$(COMMA) %zmm0$(COMMA) %zmm0)
AMX := $(call if_known,-DHAS_AMX,tdpbf16ps %tmm0$(COMMA) %tmm1$(COMMA) %tmm2)
AVXVNNI := $(call if_known,-mavxvnni,{vex} vpdpbusd %ymm0$(COMMA) %ymm0$(COMMA) %ymm0)
else ifeq ($(ARCH),aarch64)
$(BUILD)/kernels/neondot.o $(BUILD)/kernels/neondot_int8.o: FLAGS += -march=armv8.2-a+dotprod
endif

# What only programs need: the library neither prints nor reads options.
PROGRAM = cli.c counts.c info.c npy.c npz.c
VIEWS = $(wildcard views/*.c)
LIB = $(patsubst %.c,$(BUILD)/%.o,$(filter-out run.c study.c $(PROGRAM),$(wildcard *.c)) $(wildcard checkpoint/*.c kernels/*.c))
TESTS = $(patsubst %.c,$(BUILD)/%,$(wildcard tests/test_*.c)) $(wildcard tests/test_*.sh)
THREADED_TESTS = $(BUILD)/tests/test_threads $(BUILD)/tests/test_reference
SANITIZE = -O1 -g -fno-omit-frame-pointer -fno-sanitize-recover=all

all: $(RUN) $(STUDY) model.bin

# The default model, where ./run model.bin finds it.
model.bin: weights/model.gguf
	ln -sf $< $@

$(RUN): $(BUILD)/run.o $(PROGRAM:%.c=$(BUILD)/%.o) $(BUILD)/libattn.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(STUDY): $(BUILD)/study.o $(VIEWS:%.c=$(BUILD)/%.o) $(PROGRAM:%.c=$(BUILD)/%.o) $(BUILD)/libattn.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/libattn.a: $(LIB)
	rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(FLAGS) -c -o $@ $<

# What page.c has the assembler put into it, no compiler sees.
$(BUILD)/views/page.o: $(wildcard views/page/*)

$(BUILD)/tests/test_json $(BUILD)/tests/test_case $(BUILD)/tests/test_study $(BUILD)/tests/test_view: $(BUILD)/views/json.o
$(BUILD)/tests/test_view: $(BUILD)/views/base64.o $(BUILD)/views/packedrows.o $(BUILD)/views/sha256.o
$(BUILD)/tests/test_heads: $(BUILD)/views/headscores.o
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/libattn.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)

$(BUILD)/bench/bench: $(addprefix $(BUILD)/,bench/measure.o bench/peaks.o bench/report.o bench/shapes.o npy.o)
$(BUILD)/bench/%: $(BUILD)/bench/%.o $(BUILD)/cli.o $(BUILD)/libattn.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)

test: $(RUN) $(STUDY) $(TESTS)
	@RUN='$(abspath $(RUN))' STUDY='$(abspath $(STUDY))' tests/run.sh $(TESTS)

test-threaded: $(THREADED_TESTS)
	@tests/run.sh $^

# AVX-512, AMX and AVX-VNNI on a CPU without them, by Debian's libsimde-dev.
SIMDE = -include tests/avx512.h -Wno-psabi
emulated:
	$(MAKE) BUILD=build/emulated AVX512="$(AVX2) -DEMULATED_AVX512 $(SIMDE)" VNNI= BF16= AMX=-DHAS_AMX \
	    AVXVNNI="$(SIMDE)" CFLAGS="-O1 -g -include tests/anycpu.h" \
	    build/emulated/tests/test_kernels build/emulated/tests/test_reference
	build/emulated/tests/test_kernels
	build/emulated/tests/test_reference

debug:
	$(MAKE) BUILD=build/debug RUN=build/debug/run CFLAGS="-O0 -g"

sanitize:
	$(MAKE) test BUILD=build/sanitize RUN=build/sanitize/run CFLAGS="$(SANITIZE) -fsanitize=address,undefined"

tsan:
	$(MAKE) test-threaded BUILD=build/tsan CFLAGS="$(SANITIZE) -fsanitize=thread"

bench: $(BUILD)/bench/bench
	$<

install: $(RUN) $(STUDY)
	install -D -m 755 $(RUN) $(DESTDIR)$(PREFIX)/bin/attn-run
	install -D -m 755 $(STUDY) $(DESTDIR)$(PREFIX)/bin/attn-study
	install -D -m 644 docs/attn-run.1 $(DESTDIR)$(PREFIX)/share/man/man1/attn-run.1
	install -D -m 644 docs/attn-study.1 $(DESTDIR)$(PREFIX)/share/man/man1/attn-study.1

clean:
	rm -rf build run study model.bin

.PHONY: all test test-threaded emulated debug sanitize tsan bench install clean
.PRECIOUS: $(BUILD)/%.o
-include $(wildcard $(BUILD)/*.d $(BUILD)/*/*.d)
