# Compiles llama.cpp to wasm with its SIMD kernels, for Node. Releases of wllama do not contain these kernels, since llama.cpp
# includes them only if CMAKE_SYSTEM_PROCESSOR is wasm, which Emscripten's tool chain does not set.
#
#   make -f llama-wasm.mk SOURCE=/…/llama.cpp DRIVER=/…/native.c EMCC=/…/emcc OUT=/…/folder    (absolute paths)
#
# The flags are those of llama.cpp's CMake files for a release. The build takes minutes, including one minute for libc++.

.SUFFIXES:
.DELETE_ON_ERROR:
EMXX := $(EMCC:%emcc=%em++)
G := $(SOURCE)/ggml/src
L := $(SOURCE)/src
FLAGS := -O3 -DNDEBUG -msimd128 -pthread -w -I$(OUT) -I$(SOURCE)/include -I$(SOURCE)/ggml/include -I$(G) -I$(G)/ggml-cpu -I$(L) \
  -D_XOPEN_SOURCE=600 -DGGML_SCHED_MAX_COPIES=4 -DGGML_USE_CPU -DGGML_USE_CPU_REPACK
C := -std=gnu11 $(FLAGS)
CXX := -std=gnu++17 -fwasm-exceptions $(FLAGS)
# The many small files of models are compiled in groups of 16, as in llama.cpp's build.
MODELS := $(sort $(wildcard $(L)/models/*.cpp))
PARTS := $(shell seq 0 $$((($(words $(MODELS)) - 1) / 16)))
SOURCES := $(wildcard $(G)/*.c $(G)/*.cpp $(G)/ggml-cpu/*.c $(G)/ggml-cpu/*.cpp $(G)/ggml-cpu/amx/*.cpp $(G)/ggml-cpu/arch/wasm/*.c $(L)/*.cpp)
OBJECTS := $(SOURCES:$(SOURCE)/%=$(OUT)/%.o) $(PARTS:%=$(OUT)/models/%.o) $(OUT)/driver.o

$(OUT)/llama.js: $(OBJECTS)
	$(EMXX) -O2 -msimd128 -pthread -fwasm-exceptions $(OBJECTS) -o $@ -sNODERAWFS -sEXIT_RUNTIME -sENVIRONMENT=node,worker \
	  -sALLOW_MEMORY_GROWTH -sMAXIMUM_MEMORY=4GB -sINITIAL_MEMORY=512MB -sSTACK_SIZE=1MB -sDEFAULT_PTHREAD_STACK_SIZE=1MB -sPTHREAD_POOL_SIZE=4 -Wno-pthreads-mem-growth

$(OUT)/headers.done:
	@mkdir -p $(OUT)/models
	sed 's/@[A-Z_]*@/0/g' $(G)/ggml-version.h.in > $(OUT)/ggml-version.h
	sed 's/@[A-Z_]*@/0/g' $(L)/llama-version.h.in > $(OUT)/llama-version.h
	touch $@

define part
$(OUT)/models/$(1).o: $(OUT)/headers.done
	printf '#include "%s"\n' $(wordlist $(shell echo $$(($(1) * 16 + 1))),$(shell echo $$(($(1) * 16 + 16))),$(MODELS)) > $(OUT)/models/$(1).cpp
	$(EMXX) $(CXX) -c $(OUT)/models/$(1).cpp -o $$@
endef
$(foreach n,$(PARTS),$(eval $(call part,$(n))))

$(OUT)/driver.o: $(DRIVER) $(OUT)/headers.done
	$(EMCC) -std=c11 -O2 -msimd128 -pthread -I$(SOURCE)/include -I$(SOURCE)/ggml/include -c $< -o $@
$(OUT)/%.c.o: $(SOURCE)/%.c $(OUT)/headers.done
	@mkdir -p $(@D)
	$(EMCC) $(C) -c $< -o $@
$(OUT)/%.cpp.o: $(SOURCE)/%.cpp $(OUT)/headers.done
	@mkdir -p $(@D)
	$(EMXX) $(CXX) -c $< -o $@
