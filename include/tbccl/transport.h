/*
 * The C ABI between tbccl's link layer and a transport (TCP, verbs, shared memory, ...), version 0.
 * Version 0 may change until tcp, shm and the strict fake verbs device have all used it.
 *
 * Rules
 *  - One thread at a time is inside a context (the holder of the lane's token); a context needs no
 *    locks. Different contexts are independent. Contexts may be used by different threads in turn.
 *  - Nothing blocks. "Not now" is an answer (TBCCL_AGAIN).
 *  - Callbacks are only made from inside poll() and flush(), but for sent() and down(), which
 * send() may make too. A callback may call send, redirect and close_trunk, and must not call poll
 * or close.
 *  - A frame is a 64-byte header, opaque to the transport, and 0..max_payload bytes of payload.
 *  - Memory given to send() may be read until sent() reports its token, close_trunk() returned,
 *    or down() was called for that trunk. Memory given by place() may be written until the frame's
 *    last progress(), redirect(), close_trunk() or down(). After that the transport never touches
 *    it; and no sent() follows close_trunk() or down().
 *  - A transport may hold accepted frames back until the next flush() or poll(), so that frames
 * that are sent together leave together.
 *  - Frames of one trunk arrive in the order sent, unless `ordered` is 0; none is lost or
 * duplicated while the trunk is up, unless `reliable` is 0.
 */
#ifndef TBCCL_TRANSPORT_H
#define TBCCL_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TBCCL_TRANSPORT_ABI 0
#define TBCCL_FRAME_HEADER_BYTES 64
#define TBCCL_HELLO_MAX_BYTES 1024
#define TBCCL_HANDLE_MAX_BYTES 128

typedef enum { TBCCL_OK = 0, TBCCL_AGAIN = 1, TBCCL_FAILED = 2 } tbcclTransportCode_t;

/* Shapes of receive a transport has; a context declares one or several. */
typedef enum {
  TBCCL_SHAPE_PLACED = 1,  /* streams: place(header) names the destination, payload is read there */
  TBCCL_SHAPE_SLOTTED = 2, /* deliver(header, payload) from the transport's own slot */
  TBCCL_SHAPE_POSTED = 4,  /* post_recv(destination) first, arrived(token) later; no header */
  TBCCL_SHAPE_PULLED =
      8 /* the receiver reads the peer's memory itself: refer() there, reach() here,
         * and deliver() straight from that memory where a frame's payload lies in it */
} tbcclShape_t;

#define TBCCL_REFERENCE_BYTES 32

/* Memory of a peer by which this end may read it, as refer() wrote it; opaque, and untrusted. */
typedef struct {
  unsigned char bytes[TBCCL_REFERENCE_BYTES];
} tbcclReference_t;

/* Memory that ranks of one host share: each end has one board a context, which all its peers read
 * and nobody but itself writes. Zero at first. Both stay readable until the context is closed. */
typedef struct {
  void* mine;             /* the same for all trunks of the context */
  const void* theirs;     /* the peer's board */
  size_t bytes;           /* of the smaller one */
  const uint32_t* asleep; /* not 0: the peer may be asleep; after writing to `mine` call ring() */
} tbcclBoard_t;

typedef struct {
  size_t size;
  uint32_t shapes;       /* set of tbcclShape_t */
  uint32_t max_payload;  /* bytes of one frame */
  uint32_t best_payload; /* segment size that reaches full rate at the least latency */
  uint32_t reliable;     /* 1: frames are neither lost nor duplicated while the trunk is up */
  uint32_t ordered;      /* 1: frames of one trunk arrive in order */
  uint32_t
      has_descriptors; /* 1: watch() covers every source of progress, after sleeping(context, 1) */
  uint32_t reconnects; /* 1: a trunk that went down can be connected again */
} tbcclTransportProperties_t;

typedef struct tbcclTransportContext tbcclTransportContext_t;
typedef struct tbcclTrunk tbcclTrunk_t;

/* What the link layer gives to open(). `self` comes back as the first argument of each. `user` is
 * the value given to connect() or stored by incoming(). */
typedef struct {
  size_t size;
  void* self;

  /* A peer connected and sent its hello. Return 1 and store *user to accept (the reply, at most
   * TBCCL_HELLO_MAX_BYTES, is sent to it; it may be empty), 0 to refuse: the transport then closes
   * the connection without a word. `hello` is untrusted. */
  int (*incoming)(void* self, tbcclTrunk_t* trunk, const void* hello, size_t hello_bytes,
                  void* reply, size_t* reply_bytes, void** user);
  /* A trunk of connect() or incoming() can be used from now on. For connect(): the accepting
   * side's reply. Return 0 to refuse the peer (the transport then closes; no down() follows). */
  int (*up)(void* self, void* user, const void* reply, size_t reply_bytes);
  /* The trunk is gone, once, never after close_trunk. Not called for a refused peer. `text` names
   * the reason; `gone` is 1 when the other process closed or reset it. The trunk handle is invalid
   * when this returns. */
  void (*down)(void* self, void* user, int gone, const char* text);

  /* placed: where the payload of this frame goes (`length` bytes; never called with 0; NULL: throw
   * the payload away). Then progress() with the bytes of payload that are there so far, growing, at
   * least once with all of them. Frames without payload: progress(header, 0) alone. */
  void* (*place)(void* self, void* user, const void* header, uint32_t length);
  void (*progress)(void* self, void* user, const void* header, uint32_t bytes, uint32_t length);
  /* slotted, pulled: header and payload in the transport's slot or the peer's memory, valid during
   * the call. */
  void (*deliver)(void* self, void* user, const void* header, const void* payload, uint32_t length);
  /* posted: the transfer of `token` is complete. */
  void (*arrived)(void* self, void* user, uint64_t token, uint32_t length);
  /* The memory of the send with this token is not read any more (nothing about the peer). */
  void (*sent)(void* self, void* user, uint64_t token);
  /* After a TBCCL_AGAIN: sending may work again. */
  void (*writable)(void* self, void* user);

  /* The descriptor's readiness is progress: events is a set of 1 (read) and 2 (write), 0 to
   * forget it (before it is closed). Level-triggered. */
  void (*watch)(void* self, int descriptor, int events);
  /* level 0 error, 1 warning, 2 information, 3 trace */
  void (*log)(void* self, int level, const char* text);
} tbcclTransportCallbacks_t;

typedef struct {
  size_t size;
  uint32_t abi; /* TBCCL_TRANSPORT_ABI */
  const char* name;

  /* One context a lane. On failure a text of at most `error_bytes` bytes says why and what to do.
   */
  tbcclTransportCode_t (*open)(const tbcclTransportCallbacks_t* callbacks, char* error,
                               size_t error_bytes, tbcclTransportContext_t** context);
  void (*properties)(tbcclTransportContext_t* context, tbcclTransportProperties_t* properties);

  /* Accepts peers at a local address (textual, "10.0.0.1", "fe80::1%en5", "127.0.0.1"). The
   * handle, at most TBCCL_HANDLE_MAX_BYTES, is what a peer needs for connect(). */
  tbcclTransportCode_t (*listen)(tbcclTransportContext_t* context, const char* address,
                                 void* handle, size_t* handle_bytes, char* error,
                                 size_t error_bytes);
  /* Starts connecting from `local_address` (bound to it and, where the platform can, to its
   * interface; NULL: any) to a peer's handle. up() or down() follows, also when `timeout_ms` has
   * passed. TBCCL_FAILED: no callback follows. */
  tbcclTransportCode_t (*connect)(tbcclTransportContext_t* context, const char* local_address,
                                  const void* handle, size_t handle_bytes, const void* hello,
                                  size_t hello_bytes, uint32_t timeout_ms, void* user,
                                  tbcclTrunk_t** trunk, char* error, size_t error_bytes);

  /* Sends one frame. The header is copied. TBCCL_AGAIN: nothing was taken; writable() follows.
   * TBCCL_OK: sent(token) follows, possibly before send returns. TBCCL_FAILED: down() was called.
   */
  tbcclTransportCode_t (*send)(tbcclTransportContext_t* context, tbcclTrunk_t* trunk,
                               const void* header, const void* payload, uint32_t length,
                               uint64_t token);
  /* Makes progress; returns the number of things that happened (0: nothing). */
  int (*poll)(tbcclTransportContext_t* context);
  /* placed: the rest of the frame being received goes nowhere; progress() is not called for it. */
  void (*redirect)(tbcclTransportContext_t* context, tbcclTrunk_t* trunk);
  /* posted; NULL where the transport has no such shape. */
  tbcclTransportCode_t (*post_recv)(tbcclTransportContext_t* context, tbcclTrunk_t* trunk,
                                    void* destination, uint32_t length, uint64_t token);
  /* Closes at once: when it returns no memory of this trunk is touched any more. With `flush`,
   * frames already accepted are first written as far as that is possible without waiting. */
  void (*close_trunk)(tbcclTransportContext_t* context, tbcclTrunk_t* trunk, int flush);
  /* Closes every trunk and listener and frees the context. In a forked child: frees memory only. */
  void (*close)(tbcclTransportContext_t* context);
  /* Sends what is held back, as far as that goes without waiting. Makes the callbacks that sending
   * makes (sent, writable, down). NULL where nothing is ever held back. */
  void (*flush)(tbcclTransportContext_t* context);

  /* The holder of the lane is about to sleep (1), or is awake again (0). Between the two whatever
   * the peers send makes a descriptor given to watch() readable. The holder polls once more after
   * sleeping(1) and before it sleeps. NULL where descriptors always say everything. */
  void (*sleeping)(tbcclTransportContext_t* context, int asleep);

  /* pulled; all four NULL where the transport has no such shape.
   * refer: writes what the peer of this trunk needs to read [memory, memory + bytes) itself.
   * TBCCL_FAILED: this memory cannot be read by it; TBCCL_AGAIN: not now. The peer may read as long
   * as it has the reference: the owner must know otherwise when it is done. */
  tbcclTransportCode_t (*refer)(tbcclTransportContext_t* context, tbcclTrunk_t* trunk,
                                const void* memory, size_t bytes, tbcclReference_t* reference);
  /* reach: the memory behind a reference of the peer's, readable here; NULL if it makes no sense.
   * It stays mapped until the peer has freed it, or, if the trunk ends before, until the context is
   * closed; one mapping serves both ends where they are one process. */
  const void* (*reach)(tbcclTransportContext_t* context, tbcclTrunk_t* trunk,
                       const tbcclReference_t* reference, size_t bytes);
  /* board: 1 and *board filled, or 0. */
  int (*board)(tbcclTransportContext_t* context, tbcclTrunk_t* trunk, tbcclBoard_t* board);
  /* ring: wakes the peer from its sleep, if it still sleeps. */
  void (*ring)(tbcclTransportContext_t* context, tbcclTrunk_t* trunk);
} tbcclTransport_t;

/* A transport in a shared library of its own exports this; it returns NULL for an ABI that it
 * does not have. */
typedef const tbcclTransport_t* (*tbcclGetTransportFn)(uint32_t abi);

#ifdef __cplusplus
}
#endif

#endif
