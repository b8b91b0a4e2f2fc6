# Builds llama.cpp's server as a native program: from its sources, with the libraries of the same release in node-llama-cpp.
#
#   make -f llama-server.mk SOURCE=/…/llama.cpp LIBRARIES=/…/bins/linux-x64 CXX=g++ OUT=/…/folder    (absolute paths)
#
# It is not optimized, since the libraries compute. It does not contain its page, which requires another package to build.

.SUFFIXES:
.DELETE_ON_ERROR:
V := $(SOURCE)/vendor
M := $(SOURCE)/tools/mtmd
FLAGS := -O0 -w -pthread -I$(OUT) $(addprefix -I$(SOURCE)/,include ggml/include common vendor vendor/hash tools/mtmd tools/server) -I$(SOURCE) \
  -DLLAMA_SUBPROCESS -DCPPHTTPLIB_LISTEN_BACKLOG=512 -DCPPHTTPLIB_TCP_NODELAY=1
# The many small files of image and audio models are compiled in groups of 16.
MODELS := $(sort $(wildcard $(M)/models/*.cpp))
PARTS := $(shell seq 0 $$((($(words $(MODELS)) - 1) / 16)))
SOURCES := $(wildcard $(SOURCE)/tools/server/*.cpp) $(V)/cpp-httplib/httplib.cpp $(wildcard $(V)/hash/*.cpp $(V)/hash/*/*.c) \
  $(filter-out %/mtmd-cli.cpp %/deprecation-warning.cpp,$(wildcard $(M)/*.cpp))
OBJECTS := $(SOURCES:$(SOURCE)/%=$(OUT)/%.o) $(PARTS:%=$(OUT)/models/%.o) $(OUT)/ui.o
LINKED := $(filter libllama-common.% libllama.v% libggml.v% libggml-base.%,$(notdir $(wildcard $(LIBRARIES)/*)))

$(OUT)/llama-server: $(OBJECTS)
	$(CXX) -pthread $(OBJECTS) -o $@ -L$(LIBRARIES) $(LINKED:%=-l:%) '-Wl,-rpath,$$ORIGIN' -Wl,--allow-shlib-undefined

$(OUT)/ui.h:
	@mkdir -p $(OUT)/models
	for name in h cpp; do sed '/@ASSET_\|cmakedefine/d; s/@N_ASSETS@/0/; s/@USE_GZIP@/false/' $(SOURCE)/tools/ui/ui.$$name.in > $(OUT)/ui.$$name || exit; done

define part
$(OUT)/models/$(1).o: $(OUT)/ui.h
	printf '#include "%s"\n' $(wordlist $(shell echo $$(($(1) * 16 + 1))),$(shell echo $$(($(1) * 16 + 16))),$(MODELS)) > $(OUT)/models/$(1).cpp
	$(CXX) -std=c++17 $(FLAGS) -c $(OUT)/models/$(1).cpp -o $$@
endef
$(foreach n,$(PARTS),$(eval $(call part,$(n))))

$(OUT)/ui.o: $(OUT)/ui.h
	$(CXX) -std=c++17 $(FLAGS) -c $(OUT)/ui.cpp -o $@
# This C file contains a namespace, so it is compiled as C++.
$(OUT)/vendor/hash/sha1/sha1.c.o: $(V)/hash/sha1/sha1.c $(OUT)/ui.h
	@mkdir -p $(@D)
	$(CXX) -std=c++17 $(FLAGS) -x c++ -c $< -o $@
$(OUT)/%.c.o: $(SOURCE)/%.c $(OUT)/ui.h
	@mkdir -p $(@D)
	$(CXX) -x c $(FLAGS) -c $< -o $@
$(OUT)/%.cpp.o: $(SOURCE)/%.cpp $(OUT)/ui.h
	@mkdir -p $(@D)
	$(CXX) -std=c++17 $(FLAGS) -c $< -o $@
