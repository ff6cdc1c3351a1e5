// What the programs of this folder share: they end with a line where CUDA refuses a call.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <nvtx3/nvToolsExt.h>

#define CHECK(call)                                                                \
  do {                                                                             \
    int answer = (int)(call);                                                      \
    if (answer) {                                                                  \
      std::fprintf(stderr, "%s:%d: %s: error %d\n", __FILE__, __LINE__, #call, answer); \
      std::exit(1);                                                                \
    }                                                                              \
  } while (0)

// A push/pop range of the default domain, or of another.
struct Range {
  nvtxDomainHandle_t domain;
  explicit Range(const char *name, nvtxDomainHandle_t in = nullptr) : domain(in) {
    nvtxEventAttributes_t attributes = {};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = name;
    nvtxDomainRangePushEx(domain, &attributes);
  }
  ~Range() { nvtxDomainRangePop(domain); }
};
