# Instruction sets beyond the compiler's default get their flags here, file by file: one binary for all.
# Unpacked weights lie on the stack, a few hundred KB: where it is too small, it is to fault and not to reach beyond.
$(call objects,kernels/*.c): FLAGS += $(if_probed)
if_probed := $(shell $(CC) -Werror -fstack-clash-protection -x c -c -o /dev/null /dev/null 2>/dev/null && echo -fstack-clash-protection)
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
