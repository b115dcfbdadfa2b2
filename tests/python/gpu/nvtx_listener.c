// A tool that listens to NVTX, as Nsight does (NVTX 3, "injection"): writes the name of each range that begins and an
// empty line for each that ends to the file NVTX_LISTENER_OUT. test_nvtx.py builds it.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <nvtx3/nvToolsExt.h>

static FILE* out;
static int depth;

static int push(const char* name) {
  fprintf(out, "%s\n", name);
  return depth++;
}

static int push_with_attributes(const nvtxEventAttributes_t* attributes) {
  return push(attributes->message.ascii);
}

static int pop(void) {
  fputs("\n", out);
  fflush(out);
  return --depth;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table) {
  const NvtxExportTableCallbacks* callbacks = get_export_table(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable table;
  unsigned int size = 0;
  const char* path = getenv("NVTX_LISTENER_OUT");
  if (!path || !callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size)) return 0;
  out = fopen(path, "a");
  if (!out || size <= NVTX_CBID_CORE_RangePop) return 0;
  *table[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
  *table[NVTX_CBID_CORE_RangePushEx] = (NvtxFunctionPointer)push_with_attributes;
  *table[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
  return 1;
}
