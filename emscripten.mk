# Builds all C code. Each configuration has its own folder of objects, build/<config>/. tools/setup/setup.mjs finds
# emcc, and downloads it if necessary.

.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.SECONDARY:

ifneq ($(filter wasm size bench-kernels bench-token build/bench-kernels% test-wasm% bench-threads build/wasm% build/test-wasm% fuzz-wasm build/fuzz-wasm%,$(MAKECMDGOALS)),)
EMCC ?= $(shell node tools/setup/setup.mjs --print emcc)
ifeq ($(EMCC),)
$(error no emcc: see the message above)
endif
EMAR := $(dir $(EMCC))emar
endif
GCC ?= gcc
CLANG ?= clang

LIB_SOURCES  := $(wildcard c/*.c c/*/*.c)
CONVERT_ONLY := web/convert_api.c web/layers.c
WEB_SOURCES  := $(filter-out web/probe.c $(CONVERT_ONLY),$(wildcard web/*.c))
TESTS        := $(patsubst tests/c/%.c,%,$(wildcard tests/c/test_*.c))
TEST_HELPERS := $(filter-out tests/c/test_%,$(wildcard tests/c/*.c))
FUZZERS      := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
NATIVE_TOOLS := $(patsubst tools/native/%.c,%,$(wildcard tools/native/*.c))

# Results must have the same bits in all builds: no contraction, no fast-math. Without errno, sqrt is one instruction.
CFLAGS := -std=c11 -ffp-contract=off -fno-math-errno -Wall -Wextra -Werror -Ic -Itests/c -MMD -MP
# Assertions (c/core/assert.h) are compiled into tests and fuzzers, and not into the shipped modules.
ASSERTS := -DBQ_ASSERTS
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g

# $(call config,name,compiler,archiver,flags,flags of c/kernels/simd128*.c,flags of c/kernels/relaxed*.c,flags of COOL files)
# COLD: files without inner loops, compiled for the least size (-Oz in shipped modules).
# COOL: files compiled for size (-Os in shipped modules). Vector and attention kernels are as fast as with -O3. With -Oz
# tokenizers would take a third longer; those files of c/text/ that are COLD take at most 15 % longer.
COLD := c/format/% c/load/% c/model/% c/session/% c/plan.c web/% c/core/status.c c/core/dequantize.c c/text/section.c c/text/compose.c c/text/vocab.c c/kernels/kv.c c/kernels/simd128_kv.c c/kernels/self_test.c c/kernels/scalar_%.c
# HOT: files with inner loops that match a pattern of COLD or COOL, compiled for speed.
HOT := c/session/state_update.c
COOL := c/text/% c/core/hash.c c/core/sha256.c c/quant/encode.c c/quant/encoder.c c/core/import.c c/kernels/scalar_%.c c/kernels/simd128_repack.c c/kernels/simd128_vector.c c/kernels/%_attend.c c/kernels/self_test.c
define config
build/$(1)/%.o: %.c emscripten.mk build/$(1)/compiler
	@mkdir -p $$(@D)
	$(2) $$(CFLAGS) $(4) $$(if $$(filter c/kernels/simd128%,$$<),$(5)) $$(if $$(filter c/kernels/relaxed%,$$<),$(6)) $$(if $$(filter-out $$(COLD),$$(filter $$(COOL),$$<)),$(7)) $$(if $$(filter-out $$(HOT),$$(filter $$(COLD),$$<)),$(7:s=z)) -c $$< -o $$@

# Rewritten only if another compiler is used: all objects are then rebuilt.
build/$(1)/compiler: FORCE
	@mkdir -p $$(@D)
	@echo '$(2)' | cmp -s - $$@ || echo '$(2)' > $$@

build/$(1)/libbq4.a: $$(LIB_SOURCES:%.c=build/$(1)/%.o)
	@rm -f $$@
	$(3) rcs $$@ $$^

-include $$(patsubst %.c,build/$(1)/%.d,$$(LIB_SOURCES) $$(WEB_SOURCES) $$(CONVERT_ONLY) $$(wildcard tests/c/*.c tests/bench/*.c tests/fuzz/*.c tools/native/*.c))
endef

# $(call test_programs,config,linker with flags,ending)
define test_programs
.PHONY: $(1)
$(1): $$(TESTS:%=build/$(1)/%$(3))
build/$(1)/%$(3): build/$(1)/tests/c/%.o $$(TEST_HELPERS:%.c=build/$(1)/%.o) build/$(1)/libbq4.a
	$(2) $$^ -o $$@ -lm
endef

.PHONY: help FORCE
help:
	@echo 'make -f emscripten.mk TARGET'
	@echo '  wasm               the shipped modules: build/wasm/bq4-{simd128,relaxed,relaxed16}{,-threads}.wasm, bq4-{convert,convert-threads,probe,grammar}.wasm,'
	@echo '                     bq4-{simd128,relaxed,relaxed16}{,-threads}-rare.wasm'
	@echo '  native             static library and tools: build/native/'
	@echo '  test-gcc           C tests, gcc with ASan and UBSan: build/test-gcc/test_*'
	@echo '  test-clang         C tests, clang with UBSan: build/test-clang/test_*'
	@echo '  test-wasm-simd128  C tests as wasm: build/test-wasm-simd128/test_*.js'
	@echo '  test-wasm-relaxed  the same with relaxed SIMD: build/test-wasm-relaxed/test_*.js'
	@echo '  fuzz               fuzzers, clang: build/fuzz/fuzz_*'
	@echo '  fuzz-wasm          the same with 32-bit sizes: build/fuzz-wasm/fuzz_*.js'
	@echo '  bench-kernels      benchmarks of single kernels: build/native/bench-*, build/bench-kernels/*.js'
	@echo '  bench-token        the matrix products of one token, for a page of the benchmarks: build/bench/token.wasm'
	@echo '  bench-threads      the engine with threads of Emscripten: build/bench-threads/*.mjs'
	@echo '  size               bytes of the shipped modules, plain and compressed'
	@echo '  clean              removes build/'
	@echo 'Variables: EMCC, GCC, CLANG. The tests are run by: npm test -- c wasm fuzz'

# --- shipped modules -------------------------------------------------------------------------
# js/wasm/wasm.js instantiates the modules, without JavaScript of emcc. They import env.now, a clock for traces, and
# env.memory, whose size is that of the plan. Memory growth is allowed at link time, so that memories of all sizes can be
# imported. The stack is below the data, so that a stack overflow traps. LEAST_MEMORY is enough for stack and data.
STACK        := 256KB
LEAST_MEMORY := 1MB
empty :=
comma := ,
space := $(empty) $(empty)
# web/exports.txt has one exported function per line. Functions that only converters call are in a separate module.
CONVERT_EXPORTS := _bqw_dequantize _bqw_encode
QUANTIZE_EXPORTS := $(shell sed -n 's/^[a-z0-9_]* \(bqw_[a-z_]*\)[^a-z_ ].*/_\1/p' web/convert.h)
EXPORTS := $(filter-out $(CONVERT_EXPORTS),$(if $(wildcard web/exports.txt),$(shell sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\).*/_\1/p' web/exports.txt)))
# Without C++ and graphics libraries, which emcc would build for minutes before the first link.
EMCC_C := -sDEFAULT_TO_CXX=0 -sAUTO_NATIVE_LIBRARIES=0
# -O2, because with -O3 wasm-opt changes the order of instructions in the kernels (docs/log/speed.md).
WASM_LINK := -O2 $(EMCC_C) -sMALLOC=none -Wl,--no-entry -nostartfiles -Wl,--stack-first,--export=__heap_base,--export=__stack_pointer \
  -sIMPORTED_MEMORY -sALLOW_TABLE_GROWTH -sALLOW_MEMORY_GROWTH -sMAXIMUM_MEMORY=4GB -sINITIAL_MEMORY=$(LEAST_MEMORY) -sSTACK_SIZE=$(STACK) \
  -sEXPORTED_FUNCTIONS=$(subst $(space),$(comma),$(strip $(EXPORTS)))

# Each module refers to one kernel table, so that the linker omits the kernels of the others. Kernels of rare weight types
# are in separate modules, bq4-*-rare.wasm, which are added to an instance when a model with such weights is loaded.
WASM_FLAGS := -O3 -fno-exceptions -msimd128
ONE_TABLE := -DBQ_ONLY_TABLE=bqw_kernels -DBQ_KERNEL_TYPES=BQ_USUAL_TYPES
# Without jump tables and lookup tables for switches: these modules have no data segment.
RARE_ONLY := -fPIC -fno-jump-tables -Wno-unused-function -DBQ_RARE_MODULE -DBQ_KERNEL_TYPES=BQ_RARE_TYPES
# For one thread: without the code that divides the attention of a token among threads.
$(eval $(call config,wasm-plain,$(EMCC),$(EMAR),$(WASM_FLAGS) -DBQ_ONE_THREAD $(ONE_TABLE),,-mrelaxed-simd,-Os))
# For several threads, with shared memory: with atomics, and a data segment that only the first instance initializes.
# Without the code for tensor parallelism between workers without shared memory.
SHARED := -sSHARED_MEMORY -DBQ_NO_SPREAD
$(eval $(call config,wasm-threads,$(EMCC),$(EMAR),$(WASM_FLAGS) $(SHARED) $(ONE_TABLE),,-mrelaxed-simd,-Os))

.PHONY: wasm
wasm: $(patsubst %,build/wasm/bq4-%.wasm,simd128 relaxed relaxed16 simd128-threads relaxed-threads relaxed16-threads convert convert-threads probe grammar) \
  $(patsubst %,build/wasm/bq4-%-rare.wasm,simd128 relaxed relaxed16 simd128-threads relaxed-threads relaxed16-threads)

# $(call rare,build,kernels,flags,flags of c/kernels/relaxed*.c)
# Links a module of rare kernels. It uses the memory, the stack and the function table of an instance of the build, and has
# no data segment.
define rare
$$(eval $$(call config,wasm-$(1)-rare,$$(EMCC),$$(EMAR),$$(WASM_FLAGS) $$(RARE_ONLY) $(3),,$(4),-Os))
build/wasm/bq4-$(1)-rare.wasm: build/wasm-$(1)-rare/c/kernels/$(2).o
	@mkdir -p $$(@D)
	$$(EMCC) -O2 $$(EMCC_C) -sSIDE_MODULE=2 -Wl,--experimental-pic $(3) -msimd128 $(4) -sEXPORTED_FUNCTIONS=_bq_rare_matmul $$< -o $$@
endef
$(eval $(call rare,simd128,simd128,,))
$(eval $(call rare,relaxed,relaxed,,-mrelaxed-simd))
$(eval $(call rare,relaxed16,relaxed16,,-mrelaxed-simd))
$(eval $(call rare,simd128-threads,simd128,-sSHARED_MEMORY,))
$(eval $(call rare,relaxed-threads,relaxed,-sSHARED_MEMORY,-mrelaxed-simd))
$(eval $(call rare,relaxed16-threads,relaxed16,-sSHARED_MEMORY,-mrelaxed-simd))

# $(call one_table,build,objects,table,flags of compiler and linker)
# Links a module with one kernel table. All modules of a kind share their objects, except the one that names the table.
# Objects are linked room by room, kernels last: in this order gzip compresses the module best.
OTHER_WEB := $(patsubst %.c,%.o,$(filter-out web/kernels.c,$(WEB_SOURCES)))
ROOMS := $(patsubst %.c,%.o,$(foreach room,core/% format/% load/% model/% text/% plan.c session/%,$(filter c/$(room),$(LIB_SOURCES)))) $(OTHER_WEB) \
  $(addprefix c/kernels/,$(addsuffix .o,kv self_test scalar_table scalar_attend scalar_matrix scalar_vector best $(addprefix simd128_,repack vector float kv attend) simd128 relaxed_attend relaxed relaxed16_attend relaxed16))
define one_table
build/wasm-$(2)/web/kernels-$(3).o: web/kernels.c emscripten.mk build/wasm-$(2)/compiler
	@mkdir -p $$(@D)
	$$(EMCC) $$(CFLAGS) $$(WASM_FLAGS) $(4) $$(ONE_TABLE) -DBQ_OWN_TABLE=bq_kernels_$(3) -Oz -c $$< -o $$@
-include build/wasm-$(2)/web/kernels-$(3).d
build/wasm/bq4-$(1).wasm: $$(ROOMS:%=build/wasm-$(2)/%) build/wasm-$(2)/web/kernels-$(3).o $$(wildcard web/exports.txt)
	@mkdir -p $$(@D)
	$$(EMCC) $$(WASM_LINK) $(4) $(5) $$(filter %.o,$$^) -o $$@
endef
$(eval $(call one_table,simd128,plain,simd128,,-msimd128))
$(eval $(call one_table,relaxed,plain,relaxed,,-msimd128 -mrelaxed-simd))
$(eval $(call one_table,relaxed16,plain,relaxed16,,-msimd128 -mrelaxed-simd))
$(eval $(call one_table,simd128-threads,threads,simd128,$(SHARED),-msimd128))
$(eval $(call one_table,relaxed-threads,threads,relaxed,$(SHARED),-msimd128 -mrelaxed-simd))
$(eval $(call one_table,relaxed16-threads,threads,relaxed16,$(SHARED),-msimd128 -mrelaxed-simd))

# $(call convert,name,build whose objects it uses,flags of compiler and linker)
# Links the module of converters: the SIMD128 kernels with encoders; with shared memory for measuring models on texts in Node.
# Dequantization is compiled for speed here, because converters read whole models with it.
define convert
$(eval $(call config,wasm-$(1),$(EMCC),$(EMAR),$(WASM_FLAGS) $(3),,,))
build/wasm/bq4-$(1).wasm: WASM_LINK += $(3) -msimd128
build/wasm/bq4-$(1).wasm: WASM_LINK += $(patsubst _%,-Wl$(comma)--export=%,$(CONVERT_EXPORTS) $(QUANTIZE_EXPORTS))
build/wasm/bq4-$(1).wasm: build/wasm-$(2)/libbq4.a $(addprefix build/wasm-$(1)/c/,kernels/simd128.o core/dequantize.o) \
  $(addprefix build/wasm-$(2)/,web/kernels-simd128.o $(OTHER_WEB) $(CONVERT_ONLY:.c=.o)) $(wildcard web/exports.txt)
	@mkdir -p $$(@D)
	$$(EMCC) $$(WASM_LINK) $$(filter %.a,$$^) $$(filter %.o,$$^) -o $$@
endef
$(eval $(call convert,convert,plain,))
$(eval $(call convert,convert-threads,threads,$(SHARED)))

# Measures dot products, by which js/wasm/build-choice.js chooses a build.
build/wasm/bq4-probe.wasm: web/probe.c c/kernels/simd.h
	@mkdir -p $(@D)
	$(EMCC) $(filter-out -MMD -MP,$(CFLAGS)) -O2 $(EMCC_C) -sMALLOC=none -Wl,--no-entry -nostartfiles -sINITIAL_MEMORY=64KB \
	  -sSTACK_SIZE=1KB -msimd128 -mrelaxed-simd $< -o $@

# Constrains replies by grammars. It is loaded with the first grammar, and has its own memory, which can grow.
GRAMMAR_SOURCES := web/grammar/grammar_api.c $(wildcard c/grammar/*.c c/text/*.c) c/core/arena.c c/core/status.c
$(eval $(call config,wasm-grammar,$(EMCC),$(EMAR),-O2,,,-Os))
build/wasm/bq4-grammar.wasm: $(GRAMMAR_SOURCES:%.c=build/wasm-grammar/%.o)
	@mkdir -p $(@D)
	$(EMCC) -O2 $(EMCC_C) -sMALLOC=none -Wl,--no-entry -nostartfiles -Wl,--stack-first -sALLOW_MEMORY_GROWTH -sMAXIMUM_MEMORY=4GB \
	  -sINITIAL_MEMORY=1MB -sSTACK_SIZE=64KB $^ -o $@

# --- native ----------------------------------------------------------------------------------
# Not position-independent: nm can then distinguish constant tables that contain pointers from variables.
$(eval $(call config,native,$(GCC),ar,-O2 -g -fno-pie,,))
.PHONY: native
native: build/native/libbq4.a $(NATIVE_TOOLS:%=build/native/%)
$(NATIVE_TOOLS:%=build/native/%): build/native/%: build/native/tools/native/%.o build/native/libbq4.a
	$(GCC) -no-pie $^ -o $@ -lm

# --- tests -----------------------------------------------------------------------------------
# Results must not depend on the compiler. gcc's build finds invalid accesses; ASan makes clang's build four times as slow,
# and the fuzzers have it.
$(eval $(call config,test-gcc,$(GCC),ar,-O2 $(ASSERTS) $(SANITIZE),,))
$(eval $(call test_programs,test-gcc,$(GCC) $(SANITIZE),))
CLANG_SANITIZE := -fsanitize=undefined -fno-sanitize-recover=all -g
$(eval $(call config,test-clang,$(CLANG),ar,-O2 $(ASSERTS) $(CLANG_SANITIZE),,))
$(eval $(call test_programs,test-clang,$(CLANG) $(CLANG_SANITIZE),))

# The scalar tables of these builds are compiled without SIMD.
WASM_TEST_FLAGS := -O2 -g1 $(ASSERTS)
WASM_TEST_LINK := -O1 $(EMCC_C) -sALLOW_MEMORY_GROWTH -sMAXIMUM_MEMORY=4GB -sSTACK_SIZE=1MB -sEXIT_RUNTIME -sNODERAWFS -sENVIRONMENT=node
$(eval $(call config,test-wasm-simd128,$(EMCC),$(EMAR),$(WASM_TEST_FLAGS),-msimd128,))
$(eval $(call test_programs,test-wasm-simd128,$(EMCC) $(WASM_TEST_LINK) -msimd128,.js))
$(eval $(call config,test-wasm-relaxed,$(EMCC),$(EMAR),$(WASM_TEST_FLAGS) -DBQ_TEST_RELAXED,-msimd128,-msimd128 -mrelaxed-simd))
# Both builds have the same objects, except the relaxed kernels and the test of kernels.
SAME_WASM := $(filter-out c/kernels/relaxed% tests/c/test_kernels.c,$(LIB_SOURCES) $(wildcard tests/c/*.c))
$(SAME_WASM:%.c=build/test-wasm-relaxed/%.o): build/test-wasm-relaxed/%.o: build/test-wasm-simd128/%.o
	@mkdir -p $(@D)
	@ln -f $< $@
$(eval $(call test_programs,test-wasm-relaxed,$(EMCC) $(WASM_TEST_LINK) -msimd128 -mrelaxed-simd,.js))
# The programs of emcc are CommonJS modules; package.json of the repository declares ES modules.
test-wasm-simd128 test-wasm-relaxed: test-wasm-%: build/test-wasm-%/package.json
build/%/package.json:
	@mkdir -p $(@D)
	@echo '{"type": "commonjs"}' > $@

FUZZ_SANITIZE := -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all
$(eval $(call config,fuzz,$(CLANG),ar,-O1 -g $(ASSERTS) -fsanitize=fuzzer-no-link$(comma)address$(comma)undefined -fno-sanitize-recover=all,,))
.PHONY: fuzz
fuzz: $(FUZZERS:%=build/fuzz/%)
build/fuzz/fuzz_%: build/fuzz/tests/fuzz/fuzz_%.o build/fuzz/libbq4.a
	$(CLANG) $(FUZZ_SANITIZE) $^ -o $@

# The same fuzzers with a size_t of 32 bits. Undefined behaviour traps, because wasm has no sanitizer runtime.
$(eval $(call config,fuzz-wasm,$(EMCC),$(EMAR),-O1 $(ASSERTS) -fsanitize=undefined -fsanitize-trap=undefined,,))
.PHONY: fuzz-wasm
fuzz-wasm: $(FUZZERS:%=build/fuzz-wasm/%.js) build/fuzz-wasm/package.json
build/fuzz-wasm/fuzz_%.js: build/fuzz-wasm/tests/fuzz/fuzz_%.o build/fuzz-wasm/tests/fuzz/driver.o build/fuzz-wasm/libbq4.a
	$(EMCC) $(WASM_TEST_LINK) $^ -o $@

# --- benchmarks of kernels ----------------------------------------------------------------------
$(eval $(call config,bench-kernels,$(EMCC),$(EMAR),$(WASM_FLAGS),,-mrelaxed-simd,-Os))
BENCH_LINK ?= -O2
.PHONY: bench-kernels
BENCHES := kernels types attend session few matvec state sampling
bench-kernels: $(BENCHES:%=build/native/bench-%) build/native/bench-read $(BENCHES:%=build/bench-kernels/%.js)
build/native/bench-%: build/native/tests/bench/%.o build/native/libbq4.a
	$(GCC) -no-pie $^ -lpthread -o $@
build/bench-kernels/%.js: build/bench-kernels/tests/bench/%.o build/bench-kernels/libbq4.a
	@echo '{"type": "commonjs"}' > $(@D)/package.json
	$(EMCC) $(WASM_TEST_LINK) $(BENCH_LINK) -msimd128 -mrelaxed-simd $^ -o $@

# The matrix products of one token, with memory provided by the page. See tools/bench/pages/limit.js.
.PHONY: bench-token
bench-token: build/bench/token.wasm build/bench/token-simd128.wasm build/bench/dot.wasm
# With function names, which tests/bench/instructions.mjs reads.
build/bench/token-simd128.wasm: tests/bench/token.c build/bench-kernels/libbq4.a
	@mkdir -p $(@D)
	$(EMCC) -std=c11 -Ic -DBENCH_SIMD128 $(filter-out -sEXPORTED_FUNCTIONS=%,$(WASM_LINK)) --profiling-funcs -msimd128 $^ -o $@
build/bench/dot.wasm: tests/bench/dot.c
	@mkdir -p $(@D)
	$(EMCC) -std=c11 $(filter-out -sEXPORTED_FUNCTIONS=% -sIMPORTED_MEMORY,$(WASM_LINK)) -msimd128 -mrelaxed-simd $^ -o $@
build/bench/token.wasm: build/bench-kernels/libbq4.a build/bench-kernels/tests/bench/token.o
	@mkdir -p $(@D)
	$(EMCC) $(filter-out -sEXPORTED_FUNCTIONS=%,$(WASM_LINK)) -msimd128 -mrelaxed-simd $^ -o $@

# The engine of build/wasm/bq4-relaxed-threads.wasm with threads of Emscripten, see tests/bench/threads.mjs
BENCH_THREADS_LINK := -O3 $(EMCC_C) -sMALLOC=emmalloc -sMODULARIZE -sEXPORT_ES6 -sENVIRONMENT=web,worker -sINITIAL_MEMORY=16MB \
  -sSTACK_SIZE=$(STACK) -sEXPORTED_FUNCTIONS=$(subst $(space),$(comma),$(strip $(EXPORTS))) --no-entry -msimd128 -mrelaxed-simd
BENCH_THREADS_OBJECTS := $(addprefix build/wasm-threads/,web/kernels-relaxed.o $(OTHER_WEB) libbq4.a)
.PHONY: bench-threads
bench-threads: build/bench-threads/pthreads.mjs build/bench-threads/wasm-workers.mjs
build/bench-threads/pthreads.mjs: tests/bench/threads.c $(BENCH_THREADS_OBJECTS)
	@mkdir -p $(@D)
	$(EMCC) -std=c11 -Ic -Iweb -DBENCH_PTHREADS -pthread -sPTHREAD_POOL_SIZE=1 $(BENCH_THREADS_LINK) $^ -o $@
build/bench-threads/wasm-workers.mjs: tests/bench/threads.c $(BENCH_THREADS_OBJECTS)
	@mkdir -p $(@D)
	$(EMCC) -std=c11 -Ic -Iweb -sWASM_WORKERS $(BENCH_THREADS_LINK) $^ -o $@

.PHONY: size clean
size: wasm
	@node tools/size.mjs
clean:
	rm -rf build
