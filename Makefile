# make              ./run, ./study, ./quantize   make test       all tests, offline
# make debug        build/debug/, -O0            make sanitize   the tests under ASan and UBSan
# make bench        speed against the machine's  make tsan       the threaded ones under TSan
# make install      programs, library, attn.h, man pages, completions and the default model, under PREFIX;
#                   make uninstall takes them away again
# make fuzz         the programs called at random for a minute (FUZZ_SECONDS), under ASan and UBSan
# make wasm         web/attn.wasm, the engine in a page, by Debian's clang-19; make test-wasm tests it with node
# make prove        the views on models whose inside is known (docs/PROOFS.md), by python3-numpy
# make coverage     the branches that the tests take, and the reasons for those that they do not
#
# Here stands what builds the programs; the rest in kernels, tests and wasm/build.mk, and install.mk.
#
# OPENMP=1 makes build/openmp/run, whose loops run on OpenMP instead of our own pool; WERROR=1 turns
# warnings into errors; CC=clang, CFLAGS=… as usual.

# All cores work, unless -j, here or in the environment, says how many. After `clean` the order matters.
ifeq ($(MAKELEVEL)$(filter -j% --jobserver%,$(shell echo "$$MAKEFLAGS"))$(filter clean,$(MAKECMDGOALS)),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN || echo 1)
endif

# -O2, in its place -O3 for the rooms whose loops take a model's time and -Os for others; other CFLAGS hold for all alike.
# -g1: lines for backtraces and profiles. Variables, which `make debug` has, take a quarter of the time.
CFLAGS ?= -O2 -g1
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
# A program leaves out what it does not call, and has the addresses in its tables in short where the C library reads that.
FLAGS += -ffunction-sections -fdata-sections
SHORT = -Wl,-z,pack-relative-relocs
if_short = $(shell printf '\043include <stdlib.h>\n\043if !__GLIBC_PREREQ(2, 36)\n\043error\n\043endif\nint main(void) {}' | \
    $(CC) -x c - -Wl,--fatal-warnings $(SHORT) -o /dev/null 2>/dev/null && echo $(SHORT))
LINK = $(CC) $(CFLAGS) $(LDFLAGS) -Wl,--gc-sections $(if_short)
LIBS = -lm -lpthread $(if $(OPENMP),-fopenmp)

COMMA = ,

ARCH := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
FLAGS += $(if $(filter wasm32,$(ARCH)),,-fPIC)
# Doubles as wide as they are, and not as x87 has them.
FLAGS += $(if $(filter -m32,$(CC) $(CFLAGS)),-msse2 -mfpmath=sse)

objects = $(patsubst %.c,$(BUILD)/%.o,$(wildcard $(1)))
# The rooms of docs/ARCHITECTURE.md: the engine's, which neither print nor read options, and those of programs.
ENGINE_ROOMS = base kernels unicode regex jinja checkpoint vocab hub layers gradients
PROGRAM_ROOMS = cli batch measures views page packing
FACE = $(call objects,attn*.c)
ENGINE = $(filter-out $(FACE) $(addprefix $(BUILD)/,run.o study.o quantize.o),$(call objects,*.c $(ENGINE_ROOMS:%=%/*.c)))
PROGRAMS = $(call objects,$(PROGRAM_ROOMS:%=%/*.c))

INNER_LOOPS = $(filter-out %/kv_cache.o,$(call objects,attention.c mlp.c sampler.c \
    $(addsuffix /*.c,kernels layers gradients measures packing bench)))
$(INNER_LOOPS): FLAGS += $(patsubst -O2,-O3,$(filter -O2,$(CFLAGS)))

# What runs once a command, a file or a token is kept small, but for what goes through all weights.
SELDOM = $(filter-out %/rearrange.o,$(call objects,binding.c config.c conversation.c family.c generate.c open.c quantize.c run.c \
    sampling.c session.c snapshot.c study.c vocabulary.c unicode/charset.c $(addprefix regex/,classes.c compile.c pattern.c) \
    $(addprefix vocab/,decoder_json.c ends_json.c pieces_json.c pipeline_json.c vocab_gguf.c vocab_json.c vocab_keys.c) \
    $(addsuffix /*.c,jinja checkpoint hub cli batch)))
$(SELDOM): FLAGS += $(patsubst -O2,-Os,$(filter -O2,$(CFLAGS)))

VERSION := $(shell sed -n 's/^\#define ATTN_VERSION "\(.*\)"/\1/p' attn.h)
# A new second number may change what attn.h says.
SONAME = libattn.so.$(basename $(VERSION))
SHARED = $(BUILD)/libattn.so.$(VERSION)
BUILT = $(RUN) $(STUDY) $(QUANTIZE) $(BUILD)/libattn.a $(SHARED)

all: $(BUILT) model.bin

# The default model, where ./run model.bin finds it.
model.bin: weights/model.gguf
	ln -sf $< $@ || [ ! -w . ]

$(RUN): $(BUILD)/run.o
$(STUDY): $(BUILD)/study.o
$(QUANTIZE): $(BUILD)/quantize.o
$(RUN) $(STUDY) $(QUANTIZE): $(BUILD)/programs.a $(BUILD)/engine.a
	@mkdir -p $(@D)
	$(LINK) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)

# Programs and tests link the engine with all its names; the library is one object in which all others are local.
$(BUILD)/engine.a: $(ENGINE)
	rm -f $@ && $(AR) qcs $@ $^ # q: two rooms may have a file of one name

$(BUILD)/libattn.a: $(ENGINE) $(FACE)
	$(CC) $(if $(findstring -flto,$(CFLAGS)),$(CFLAGS) -flinker-output=nolto-rel) -r -nostdlib -o $(BUILD)/libattn.o $^
	$(shell $(CC) -print-prog-name=objcopy) --localize-hidden $(BUILD)/libattn.o
	rm -f $@ && $(AR) rcs $@ $(BUILD)/libattn.o

$(SHARED): $(ENGINE) $(FACE)
	$(LINK) -shared -Wl,-soname,$(SONAME) -o $@ $^ $(LIBS)
	ln -sf $(@F) $(BUILD)/$(SONAME) && ln -sf $(@F) $(BUILD)/libattn.so

$(BUILD)/programs.a: $(PROGRAMS)
	rm -f $@ && $(AR) qcs $@ $^

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(FLAGS) -c -o $@ $<

# No compiler sees what html.c has the assembler put into it.
$(BUILD)/page/html.o: $(wildcard web/*.js web/*.css web/*.html web/*.wasm)

$(BUILD)/bench/bench: $(addprefix $(BUILD)/,bench/measure.o bench/peaks.o bench/report.o bench/shapes.o)
$(BUILD)/bench/guesses $(BUILD)/bench/texts: $(BUILD)/bench/shapes.o
$(BUILD)/bench/%: $(BUILD)/bench/%.o $(BUILD)/programs.a $(BUILD)/engine.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)

debug:
	$(MAKE) BUILD=build/debug RUN=build/debug/run CFLAGS="-O0 -g"

bench: $(BUILD)/bench/bench
	$<

clean:
	rm -rf build run study quantize model.bin

include kernels/build.mk tests/build.mk wasm/build.mk install.mk

.PHONY: all test test-threaded emulated debug sanitize tsan wasm test-wasm fuzz prove coverage bench install uninstall clean
.PRECIOUS: $(BUILD)/%.o
-include $(wildcard $(BUILD)/*.d $(BUILD)/*/*.d $(BUILD)/*/*/*.d)
