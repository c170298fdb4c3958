# The engine in a page, web/attn.wasm, which stands in the tree: only who changes it needs this compiler. Its objects are
# linked one by one, by name, so that its bytes depend on the sources and the compiler's version alone.
ifeq ($(ARCH),wasm32)
# Every browser with SIMD has these. Small, and fast where the time goes.
FLAGS += -msimd128 -mbulk-memory -mnontrapping-fptoint -msign-ext -Wno-enum-float-conversion
FLAGS += -D_WASI_EMULATED_MMAN -D_WASI_EMULATED_SIGNAL -D_WASI_EMULATED_PROCESS_CLOCKS
$(BUILD)/kernels/wasm.o $(BUILD)/kernels/dtype.o: FLAGS += -O2
$(BUILD)/tests/%.o: FLAGS += -include tests/wasi.h
# Sizes of more than 32 bits pass there unseen: no module has them.
$(BUILD)/tests/%.o $(addprefix $(BUILD)/hub/,tensors.o zip.o): FLAGS += -Wno-shorten-64-to-32
endif

WASM_CC ?= clang-19
WASM = $(MAKE) --no-print-directory BUILD=build/wasm CC='$(WASM_CC) --target=wasm32-wasi' CFLAGS=-Oz
# The parts that wasm/ has in its own way (system.c, threads.c, process.c), or leaves out (left_out.c).
NOT_IN_MODULE = base/threads.o base/json.o base/locale.o kernels/scalar.o backward.o conversation.o guess.o snapshot.o \
    $(patsubst %.c,%.o,$(wildcard gradients/*.c jinja/*.c hub/*.c vocab/*_json.c)) \
    unicode/normalize.o unicode/mappings.o $(addprefix vocab/,pipeline.o unigram.o vocab_keys.o) \
    $(addprefix checkpoint/,builder.o refusals.o llama2c.o llmc.o)
# Of the programs' rooms, what the views that a page asks for are made of.
ASKED = $(addprefix views/,ablate attend attend_text command common explain heads lens next pairloop pairs patch patch_text score tokens) \
    $(addprefix measures/,ablation arena difference distribution effects effectsums frozennorm heads items laneattention lanes lensrows metric outputnorms \
    patching patterns predictions readout scores subject subject_cache traces writes) \
    $(addprefix page/,ask json page) $(addprefix cli/,base64 counts input llamacpp notes options print report table)
MODULE = $(sort $(filter-out $(addprefix $(BUILD)/,$(NOT_IN_MODULE)),$(ENGINE) $(call objects,wasm/*.c)) \
    $(ASKED:%=$(BUILD)/%.o))

ifeq ($(ARCH),wasm32)
$(MODULE): Makefile wasm/build.mk # whose flags make the bytes
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

$(BUILD)/tests/%.wasm: $(BUILD)/tests/%.o $(BUILD)/tests/wasi.o $(BUILD)/wasm/threads.o $(filter-out $(BUILD)/base/threads.o,$(ENGINE))
	$(CC) -o $@ $(sort $^) -Wl,--gc-sections,-z,stack-size=1048576,--initial-memory=67108864
