# attn: make, make test, make debug, make sanitize, make tsan, make bench, make install, make clean.
# OPENMP=1 runs parallel loops on OpenMP instead of our own pool. WERROR=1 turns warnings into errors.

CC ?= cc
CFLAGS ?= -O3 -g
PREFIX ?= /usr/local
BUILD ?= build

WARNINGS = -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
FLAGS = -std=c11 -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -ffp-contract=off -I. -MMD -MP $(WARNINGS)
LIBS = -lm -lpthread
ifdef WERROR
FLAGS += -Werror
endif
ifdef OPENMP
FLAGS += -fopenmp
LIBS += -fopenmp
endif

# Instruction sets beyond the compiler's default get their flags here, file by file: one binary for all.
ARCH := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
$(BUILD)/kernels/avx2.o: FLAGS += $(if $(filter x86_64,$(ARCH)),-mavx2 -mfma -mf16c)

LIB = $(patsubst %.c,$(BUILD)/%.o,$(filter-out run.c,$(wildcard *.c)) $(wildcard checkpoint/*.c kernels/*.c))
TESTS = $(patsubst %.c,$(BUILD)/%,$(wildcard tests/test_*.c)) $(wildcard tests/test_*.sh)

all: run

run: $(BUILD)/run.o $(BUILD)/libattn.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/libattn.a: $(LIB)
	rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(FLAGS) -c -o $@ $<

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/libattn.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

test: run $(TESTS)
	@tests/run.sh $(TESTS)

clean:
	rm -rf build run

.PHONY: all test clean
.SECONDARY:
-include $(wildcard $(BUILD)/*.d $(BUILD)/*/*.d)
