/*
 * tbccl: collective communication for machines whose memory the CPU can reach.
 *
 * This header is the whole public C API (C99). Link with -ltbccl.
 *
 * Threads.  Every function may be called from any thread. Calls on one communicator are put in
 *           one order by the library; all ranks must issue the collectives of a communicator in
 *           the same order. Different communicators are independent of each other.
 * Results.  Every function returns a tbcclResult_t. tbcclInvalidArgument means that the call had
 *           no effect and the communicator is still usable. tbcclInProgress is not an error. After
 *           any other error the communicator is broken: all later calls on it return the first
 *           cause, and it is to be aborted and destroyed. tbcclGetLastError says what happened, to
 *           whom, and what to do about it.
 * Buffers.  Send buffers are never written. A buffer given to a call belongs to the library until
 *           the call (or its request) has completed, with or without an error; after that the
 *           library neither reads nor writes it. In place means that both pointers are equal.
 * Counts.   Are elements, not bytes; zero is legal everywhere and still takes part.
 */
#ifndef TBCCL_TBCCL_H
#define TBCCL_TBCCL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define TBCCL_API
#else
#define TBCCL_API __attribute__((visibility("default")))
#endif

/* Callers may pass any number where an enumeration is asked for, and are told if it is none of the
 * names. In C++ such a number is a legal value only of an enumeration whose type is fixed. */
#if defined(__cplusplus)
#define TBCCL_ENUM enum : int
#else
#define TBCCL_ENUM enum
#endif

#define TBCCL_MAJOR 0
#define TBCCL_MINOR 1
#define TBCCL_PATCH 0
/* major * 10000 + minor * 100 + patch, as tbcclGetVersion reports it */
#define TBCCL_VERSION_CODE (TBCCL_MAJOR * 10000 + TBCCL_MINOR * 100 + TBCCL_PATCH)

/* ---- result codes (NCCL's numbers where NCCL has them) ------------------------------------ */

typedef TBCCL_ENUM{
    tbcclSuccess = 0,         tbcclSystemError = 2, /* the operating system refused something */
    tbcclInternalError = 3,                         /* a bug in tbccl */
    tbcclInvalidArgument = 4,                       /* no effect; the communicator stays usable */
    tbcclInvalidUsage = 5, /* ranks disagree about a call, use after fork, use of a broken handle */
    tbcclRemoteError = 6,  /* a peer is gone or unreachable */
    tbcclInProgress = 7,   /* not finished yet; nothing is broken */
    tbcclTimeout = 8,      /* the operation's deadline passed */
    tbcclAborted = 16      /* tbcclCommAbort was called, here or on another rank */
} tbcclResult_t;

/* ---- types and operators ------------------------------------------------------------------- */

typedef TBCCL_ENUM{
    tbcclInt8 = 0,        tbcclUint8 = 1,   tbcclInt32 = 2,   tbcclUint32 = 3,  tbcclInt64 = 4,
    tbcclUint64 = 5,      tbcclFloat16 = 6, tbcclFloat32 = 7, tbcclFloat64 = 8, tbcclBfloat16 = 9,
    tbcclFloat8e4m3 = 10, /* OCP e4m3fn: no infinities, one NaN pattern per sign */
    tbcclFloat8e5m2 = 11, tbcclInt16 = 16,  tbcclUint16 = 17, tbcclBool = 18, /* one byte; any
                                                                                 non-zero byte is
                                                                                 true, results are 0
                                                                                 or 1 */
    tbcclComplex64 = 19,                                                      /* two float32 */
    tbcclComplex128 = 20                                                      /* two float64 */
} tbcclDataType_t;

/*
 * Legal pairs: integers take every operator (avg: the wrapped sum, divided, truncated towards
 * zero); floats and float8 take sum, prod, min, max, avg and pre-multiplied sum; complex takes
 * sum, prod, avg and pre-multiplied sum; bool takes min, max, bitwise and logical. A user
 * function takes any type. Other pairs are tbcclInvalidArgument.
 */
typedef TBCCL_ENUM{
    tbcclSum = 0,
    tbcclProd = 1,
    tbcclMax = 2,
    tbcclMin = 3,
    tbcclAvg = 4,
    tbcclBitAnd = 16,
    tbcclBitOr = 17,
    tbcclBitXor = 18,
    tbcclLogicalAnd = 19,
    tbcclLogicalOr = 20,
    tbcclLogicalXor = 21,
    tbcclRedOpDynamic = 0x1000, /* operators made by tbcclRedOpCreate* are numbered from here on */
    tbcclRedOpMax = 0x7fffffff} tbcclRedOp_t;

/* ---- handles ------------------------------------------------------------------------------- */

typedef struct tbcclComm* tbcclComm_t;
typedef struct tbcclRequest* tbcclRequest_t;

#define TBCCL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[TBCCL_UNIQUE_ID_BYTES];
} tbcclUniqueId;

#define TBCCL_ANY_SOURCE (-1)
#define TBCCL_REQUEST_NULL ((tbcclRequest_t)0)

/* ---- configuration ------------------------------------------------------------------------- */

#define TBCCL_CONFIG_MAGIC 0x7bcc1c0fu
#define TBCCL_UNSET_INT ((int)0x80000000)
#define TBCCL_UNSET_I64 INT64_MIN

/* What a tuner is asked: which algorithm a group of `nranks` is to use for an operation (a
 * tbcclOperation_t) on vectors of minBytes to maxBytes. Candidates are in the order of the library's
 * preference where predictions are equal. */
typedef struct {
  size_t size; /* of this structure; new fields are only ever appended */
  int operation;
  int nranks;
  size_t minBytes; /* size classes: 0 to 1, 2 to 3, 4 to 7, ... */
  size_t maxBytes; /* SIZE_MAX in the last class */
  int candidates;
  const char* const* algorithms; /* names, as in TBCCL_ALGO */
  const double* predictedNs;     /* of minBytes */
  int libraryChoice;             /* index of what the library would take */
} tbcclTunerQuestion_t;

/* Returns the index of a candidate, or a negative number: the library chooses. Asked on rank 0 only,
 * on the thread that makes the communicator and before that call returns, once for every operation
 * and size class; all ranks then follow the answers. Must not call tbccl. TBCCL_ALGO, deterministic
 * and operators that do not commute come before it: where they forbid its answer, the library
 * chooses. */
typedef int (*tbcclTuner_t)(void* context, const tbcclTunerQuestion_t* question);

/*
 * Options of one communicator. Start from TBCCL_CONFIG_INITIALIZER, which marks every field as
 * "not set"; a field that is not set comes from the environment (TBCCL_...), then from the
 * built-in default. New fields are only ever appended; `size` says how many the caller knows.
 * Strings are copied.
 */
typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;     /* TBCCL_VERSION_CODE of the header that was compiled against */
  int64_t timeoutMs;        /* of one operation; 0 = none.     TBCCL_TIMEOUT (seconds) */
  int64_t connectTimeoutMs; /* of rendezvous and connecting.   TBCCL_CONNECT_TIMEOUT (seconds) */
  int deterministic;        /* 1: bits depend on inputs, type, operator and n only */
  const char* algorithms;   /* NCCL's grammar.                 TBCCL_ALGO */
  const char* transports;   /* "tcp,shm" or "^verbs".          TBCCL_TRANSPORT */
  const char* cabling;      /* path of a cabling file.         TBCCL_CABLING */
  const char* commName;     /* appears in messages and logs */
  const char* tuning;       /* path of a tuning file, read on rank 0. TBCCL_TUNING */
  tbcclTuner_t tuner;       /* rank 0's; its answers come before the tuning file's */
  void* tunerContext;
} tbcclConfig_t;

#define TBCCL_CONFIG_INITIALIZER                                                    \
  {                                                                                 \
    sizeof(tbcclConfig_t), TBCCL_CONFIG_MAGIC, TBCCL_VERSION_CODE, TBCCL_UNSET_I64, \
        TBCCL_UNSET_I64, TBCCL_UNSET_INT, NULL, NULL, NULL, NULL, NULL, NULL, NULL  \
  }

/* ---- version and errors -------------------------------------------------------------------- */

/* Stores TBCCL_VERSION_CODE of the library in *version. */
TBCCL_API tbcclResult_t tbcclGetVersion(int* version);

/* A static text for a code; never NULL. */
TBCCL_API const char* tbcclGetErrorString(tbcclResult_t result);

/* What happened last: on `comm`, or, if that is NULL, in a call of this thread that had no
 * communicator (initialisation, bad arguments). Never NULL; valid until this thread's next call
 * of tbcclGetLastError. */
TBCCL_API const char* tbcclGetLastError(tbcclComm_t comm);

/* ---- communicators ------------------------------------------------------------------------- */

/* Makes an id and starts listening for the ranks that will use it, in this process, until all of
 * them have come or the connect time-out has passed. One process calls it and gives the 128
 * bytes to all ranks by any means. */
TBCCL_API tbcclResult_t tbcclGetUniqueId(tbcclUniqueId* uniqueId);

/* Joins `nranks` ranks that hold the same id. Collective; blocks until all have joined or the
 * connect time-out has passed. On an error *comm is NULL. */
TBCCL_API tbcclResult_t tbcclCommInitRank(tbcclComm_t* comm, int nranks, tbcclUniqueId id,
                                          int rank);
TBCCL_API tbcclResult_t tbcclCommInitRankConfig(tbcclComm_t* comm, int nranks, tbcclUniqueId id,
                                                int rank, const tbcclConfig_t* config);

/* Makes `nranks` communicators of one group inside this process; comms[i] is rank i. */
TBCCL_API tbcclResult_t tbcclCommInitAll(tbcclComm_t* comms, int nranks);

/* Joins as the environment says: TBCCL_RANK, TBCCL_SIZE, TBCCL_RENDEZVOUS=host:port (rank 0
 * listens there; IPv6 as [addr]:port), or as a launcher does:
 *
 *   torchrun   RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT (never bound),
 *              TORCHELASTIC_RUN_ID, TORCHELASTIC_RESTART_COUNT
 *   mlx        MLX_RANK with MLX_HOSTFILE, or with MLX_IBV_DEVICES and MLX_JACCL_COORDINATOR
 *   openmpi    OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_SIZE, PMIX_NAMESPACE; on several hosts
 *              TBCCL_RENDEZVOUS has to be passed with -x
 *   mpich      PMI_RANK, PMI_SIZE, PMI_FD (PMI-1); call it before MPI_Init
 *   slurm      SLURM_PROCID, SLURM_NTASKS (or the step's), SLURM_JOB_ID, SLURM_STEP_ID, the node list
 *
 * TBCCL_RANK and TBCCL_SIZE come first; then what TBCCL_LAUNCHER names (none: nobody); then the
 * first of this list that is seen. TBCCL_RENDEZVOUS is used under each of them. TMPDIR is where
 * ranks of one host leave their address. `config` may be NULL. Without any: a group of one rank. */
TBCCL_API tbcclResult_t tbcclCommInitEnv(tbcclComm_t* comm, const tbcclConfig_t* config);

/* All-gather given by the caller: every rank contributes `bytes` bytes of `send`; afterwards
 * `recv` holds nranks * bytes, in rank order. Returns 0 on success. Called only while the init
 * function runs, on its thread, the same number of times on every rank. */
typedef int (*tbcclExchangeFn)(void* context, const void* send, void* recv, size_t bytes);
TBCCL_API tbcclResult_t tbcclCommInitExchange(tbcclComm_t* comm, int nranks, int rank,
                                              tbcclExchangeFn allgather, void* context,
                                              const tbcclConfig_t* config);

/* The colour of ranks that become members of no new communicator. */
#define TBCCL_NOCOLOR (-1)

/* Makes a communicator of all ranks of `comm` that give the same colour (0 or more), in the order
 * of their keys, and of their ranks in `comm` where keys are equal. Collective on `comm`, like an
 * operation on it: all its ranks call it, in the same order with its collectives. Blocks. For ranks
 * that give TBCCL_NOCOLOR *newcomm is NULL.
 * The new communicator uses the links of `comm`: nothing is connected or started for it. It is a
 * communicator of its own all the same: its operations are independent of those of others, it may
 * outlive `comm`, and is destroyed by itself. If it breaks, or is aborted, that breaks no other
 * one; a rank that is gone, or cannot be reached any more, breaks every communicator it is in.
 * `config` (NULL: as `comm`) may set timeoutMs, connectTimeoutMs, commName, and algorithms and
 * deterministic, which are taken from the first rank of the new communicator. Operators made on
 * `comm` are not known to it.
 * On an error *newcomm is NULL on every rank. tbcclInvalidArgument (also: of another rank's
 * arguments) leaves `comm` usable. Not inside a group. */
TBCCL_API tbcclResult_t tbcclCommSplit(tbcclComm_t comm, int color, int key, tbcclComm_t* newcomm,
                                       const tbcclConfig_t* config);

/* The same for all ranks of `comm`, in their order. */
TBCCL_API tbcclResult_t tbcclCommDup(tbcclComm_t comm, tbcclComm_t* newcomm);

TBCCL_API tbcclResult_t tbcclCommCount(tbcclComm_t comm, int* count);
TBCCL_API tbcclResult_t tbcclCommUserRank(tbcclComm_t comm, int* rank);

/* The communicator's state: tbcclSuccess, or the first error that broke it, also when no call
 * was running at the time. */
TBCCL_API tbcclResult_t tbcclCommGetAsyncError(tbcclComm_t comm, tbcclResult_t* asyncError);

/* Waits for everything outstanding and says goodbye to the peers, so that none of them takes
 * this rank's end for a failure. Collective; of `comm` alone, not of communicators that were split
 * from it. Afterwards only destroy is useful. */
TBCCL_API tbcclResult_t tbcclCommFinalize(tbcclComm_t comm);

/* Finalizes if that has not been done, waits until all threads have left calls on `comm`, and
 * frees it. Requests of the communicator that still exist become invalid. Operations that are not
 * complete after the connect time-out fail with tbcclInvalidUsage, here and on the other ranks, so
 * that the threads in them leave. Calls that another thread keeps in an open group are not waited
 * for: its tbcclGroupEnd returns tbcclInvalidUsage. */
TBCCL_API tbcclResult_t tbcclCommDestroy(tbcclComm_t comm);

/* Breaks the communicator (and no other that was split from it, or that it was split from) here and
 * on every rank: blocked calls and outstanding requests return
 * tbcclAborted (after which their buffers are not touched any more). Frees nothing: call
 * tbcclCommDestroy. May be called while other threads are inside calls on `comm`. */
TBCCL_API tbcclResult_t tbcclCommAbort(tbcclComm_t comm);

/* ---- memory --------------------------------------------------------------------------------- */

/*
 * Memory for buffers that ranks of one host read directly: large collectives on it copy nothing
 * between ranks (all-reduce: each rank reads every input once and every result once). Page-aligned,
 * zero, at least `bytes` (1 or more) long; usable like any memory, in every collective and with any
 * communicator, before or after it is made. The caller owns it. No rank ever writes another's.
 * After fork() parent and child share it: a child must not write to it.
 * tbcclMemFree takes what tbcclMemAlloc gave (NULL: nothing happens), when no call that uses it is
 * in progress. Any thread.
 * Errors: tbcclInvalidArgument (*memory is then untouched), tbcclSystemError when the system has
 * none.
 */
TBCCL_API tbcclResult_t tbcclMemAlloc(void** memory, size_t bytes);
TBCCL_API tbcclResult_t tbcclMemFree(void* memory);

/* ---- operators made by the user ------------------------------------------------------------ */

typedef TBCCL_ENUM{tbcclScalarHostImmediate = 1} tbcclScalarResidence_t;

/* Sum of scalar * x, where each rank gives its own scalar of type `datatype` (read before this
 * returns). Float, float8, integer and complex types. */
TBCCL_API tbcclResult_t tbcclRedOpCreatePreMulSum(tbcclRedOp_t* op, const void* scalar,
                                                  tbcclDataType_t datatype,
                                                  tbcclScalarResidence_t residence,
                                                  tbcclComm_t comm);

/* inout[i] = in[i] (op) inout[i] for count elements, where `in` holds the contribution of the
 * lower ranks: an operator that does not commute (commutative = 0) is applied in rank order.
 * Must be associative. May be called from any thread, several at once; must not call tbccl. */
typedef void (*tbcclReduceFn)(const void* in, void* inout, size_t count, tbcclDataType_t datatype,
                              void* context);
TBCCL_API tbcclResult_t tbcclRedOpCreate(tbcclRedOp_t* op, tbcclReduceFn function, void* context,
                                         int commutative, tbcclComm_t comm);

/* The operator may be destroyed as soon as the last call that uses it has returned, complete or
 * not. */
TBCCL_API tbcclResult_t tbcclRedOpDestroy(tbcclRedOp_t op, tbcclComm_t comm);

/* ---- operations -----------------------------------------------------------------------------
 * `request` NULL: the call blocks until the operation is complete here. Otherwise it returns at
 * once and stores a request, to be given to test or wait, or freed. Inside a group see there. */

/* recvbuff[i] = op over all ranks of sendbuff[i]; count elements; same bits on every rank. */
TBCCL_API tbcclResult_t tbcclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                                       tbcclDataType_t datatype, tbcclRedOp_t op, tbcclComm_t comm,
                                       tbcclRequest_t* request);

/* recvbuff of every rank = sendbuff of `root`. sendbuff is read on the root only. */
TBCCL_API tbcclResult_t tbcclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                                       tbcclDataType_t datatype, int root, tbcclComm_t comm,
                                       tbcclRequest_t* request);

/* recvbuff of `root`[i] = op over all ranks of sendbuff[i]. recvbuff is written on the root only,
 * and may be NULL elsewhere. In place (root): sendbuff == recvbuff. */
TBCCL_API tbcclResult_t tbcclReduce(const void* sendbuff, void* recvbuff, size_t count,
                                    tbcclDataType_t datatype, tbcclRedOp_t op, int root,
                                    tbcclComm_t comm, tbcclRequest_t* request);

/* recvbuff (nranks * sendcount elements) of every rank = the sendbuffs of all ranks, in rank order.
 * In place: sendbuff == recvbuff + rank * sendcount. */
TBCCL_API tbcclResult_t tbcclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                       tbcclDataType_t datatype, tbcclComm_t comm,
                                       tbcclRequest_t* request);

/* recvbuff (recvcount elements) of rank r = block r of the combined sendbuffs (nranks * recvcount
 * elements). In place: recvbuff == sendbuff + rank * recvcount; only that block is written. */
TBCCL_API tbcclResult_t tbcclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                           tbcclDataType_t datatype, tbcclRedOp_t op,
                                           tbcclComm_t comm, tbcclRequest_t* request);

/* Block s of recvbuff of rank r = block r of sendbuff of rank s; count elements a block, nranks
 * blocks a buffer. In place: sendbuff == recvbuff (takes a copy of it for scratch). */
TBCCL_API tbcclResult_t tbcclAllToAll(const void* sendbuff, void* recvbuff, size_t count,
                                      tbcclDataType_t datatype, tbcclComm_t comm,
                                      tbcclRequest_t* request);

/* recvbuff (nranks * count elements) of `root` = the sendbuffs of all ranks, in rank order; it is
 * written on the root only, and may be NULL elsewhere. In place (root): sendbuff == recvbuff + root
 * * count. */
TBCCL_API tbcclResult_t tbcclGather(const void* sendbuff, void* recvbuff, size_t count,
                                    tbcclDataType_t datatype, int root, tbcclComm_t comm,
                                    tbcclRequest_t* request);

/* recvbuff (count elements) of rank r = block r of sendbuff of `root`, which is read there only and
 * may be NULL elsewhere. In place (root): recvbuff == sendbuff + root * count. */
TBCCL_API tbcclResult_t tbcclScatter(const void* sendbuff, void* recvbuff, size_t count,
                                     tbcclDataType_t datatype, int root, tbcclComm_t comm,
                                     tbcclRequest_t* request);

/* recvbuff of rank r = the combination of the sendbuffs of ranks 0 to r (exclusive: to r - 1; rank
 * 0 then receives nothing: its recvbuff is left as it is). Where op is an average, it is that of
 * the ranks combined. In place: sendbuff == recvbuff. */
TBCCL_API tbcclResult_t tbcclScan(const void* sendbuff, void* recvbuff, size_t count,
                                  tbcclDataType_t datatype, tbcclRedOp_t op, tbcclComm_t comm,
                                  tbcclRequest_t* request);
TBCCL_API tbcclResult_t tbcclExScan(const void* sendbuff, void* recvbuff, size_t count,
                                    tbcclDataType_t datatype, tbcclRedOp_t op, tbcclComm_t comm,
                                    tbcclRequest_t* request);

/* ---- variable counts --------------------------------------------------------------------------
 * Block r belongs to rank r; it has counts[r] elements and begins displs[r] elements after the
 * buffer's beginning. displs NULL: one after the other. Both arrays have nranks entries and are
 * read before the call returns. Blocks of recvbuff must not share elements; elements between them
 * are not written. In place as for the form without "V", with displs[r] in place of r * count; an
 * all-to-all in place needs equal counts and displs both ways. */

/* sendcount must equal recvcounts[rank]; recvcounts is the same on all ranks. */
TBCCL_API tbcclResult_t tbcclAllGatherV(const void* sendbuff, size_t sendcount, void* recvbuff,
                                        const size_t* recvcounts, const size_t* recvdispls,
                                        tbcclDataType_t datatype, tbcclComm_t comm,
                                        tbcclRequest_t* request);

/* recvcount must equal sendcounts[rank]; sendcounts is the same on all ranks. */
TBCCL_API tbcclResult_t tbcclReduceScatterV(const void* sendbuff, const size_t* sendcounts,
                                            const size_t* senddispls, void* recvbuff,
                                            size_t recvcount, tbcclDataType_t datatype,
                                            tbcclRedOp_t op, tbcclComm_t comm,
                                            tbcclRequest_t* request);

/* sendcounts[r] here must equal recvcounts[rank] of rank r. */
TBCCL_API tbcclResult_t tbcclAllToAllV(const void* sendbuff, const size_t* sendcounts,
                                       const size_t* senddispls, void* recvbuff,
                                       const size_t* recvcounts, const size_t* recvdispls,
                                       tbcclDataType_t datatype, tbcclComm_t comm,
                                       tbcclRequest_t* request);

/* sendcount of rank r must equal recvcounts[r] of the root, which alone reads the arrays. */
TBCCL_API tbcclResult_t tbcclGatherV(const void* sendbuff, size_t sendcount, void* recvbuff,
                                     const size_t* recvcounts, const size_t* recvdispls,
                                     tbcclDataType_t datatype, int root, tbcclComm_t comm,
                                     tbcclRequest_t* request);

/* recvcount of rank r must equal sendcounts[r] of the root, which alone reads the arrays. */
TBCCL_API tbcclResult_t tbcclScatterV(const void* sendbuff, const size_t* sendcounts,
                                      const size_t* senddispls, void* recvbuff, size_t recvcount,
                                      tbcclDataType_t datatype, int root, tbcclComm_t comm,
                                      tbcclRequest_t* request);

/* ---- point to point ----------------------------------------------------------------------------
 */

/* Sends count elements to `peer`, where a receive with the same count, type and tag must meet
 * them. Messages between two ranks with the same tag are received in the order sent. tag >= 0.
 * A blocking send returns when sendbuff may be reused. */
TBCCL_API tbcclResult_t tbcclSend(const void* sendbuff, size_t count, tbcclDataType_t datatype,
                                  int peer, int tag, tbcclComm_t comm, tbcclRequest_t* request);

/* Receives from `peer`, or from whoever comes first with TBCCL_ANY_SOURCE (tbcclRequestSource
 * then tells who). */
TBCCL_API tbcclResult_t tbcclRecv(void* recvbuff, size_t count, tbcclDataType_t datatype, int peer,
                                  int tag, tbcclComm_t comm, tbcclRequest_t* request);

/* A send to `dest` and a receive from `source` (or TBCCL_ANY_SOURCE) at the same time, as one
 * operation: ranks that exchange in a circle do not wait for each other. Each half may meet the
 * other rank's plain send or receive. The buffers must not overlap. */
TBCCL_API tbcclResult_t tbcclSendRecv(const void* sendbuff, size_t sendcount, int dest,
                                      void* recvbuff, size_t recvcount, int source,
                                      tbcclDataType_t datatype, int tag, tbcclComm_t comm,
                                      tbcclRequest_t* request);

/* ---- synchronisation ---------------------------------------------------------------------------
 */

/* Returns on no rank before every rank has called it. */
TBCCL_API tbcclResult_t tbcclBarrier(tbcclComm_t comm, tbcclRequest_t* request);

/* ---- the general form ---------------------------------------------------------------------- */

typedef TBCCL_ENUM{tbcclOpAllReduce = 0,   tbcclOpBroadcast = 1,       tbcclOpSend = 2,
                   tbcclOpRecv = 3,        tbcclOpBarrier = 4,         tbcclOpReduce = 5,
                   tbcclOpAllGather = 6,   tbcclOpReduceScatter = 7,   tbcclOpAllToAll = 8,
                   tbcclOpGather = 9,      tbcclOpScatter = 10,        tbcclOpSendRecv = 11,
                   tbcclOpAllGatherV = 12, tbcclOpReduceScatterV = 13, tbcclOpAllToAllV = 14,
                   tbcclOpGatherV = 15,    tbcclOpScatterV = 16,       tbcclOpScan = 17,
                   tbcclOpExScan = 18} tbcclOperation_t;

typedef TBCCL_ENUM{
    tbcclStartNow = 0,
    tbcclStartWhenFlag = 1,      /* when *flag == flagValue (an aligned 32-bit word; the writer uses
                                    release order; looked at by the library's threads) */
    tbcclStartWhenDescriptor = 2 /* when `descriptor` becomes readable; it is not read */
} tbcclStartWhen_t;

/* Called once, on one of the library's threads, when the request has completed; `result` is what
 * wait would return. May submit further calls with a request, must not block on one. */
typedef void (*tbcclCallback_t)(void* context, tbcclResult_t result);

#define TBCCL_CALL_MAGIC 0x7bcc1ca1u

/* One operation in full. Start from TBCCL_CALL_INITIALIZER. New fields are only ever appended.
 * Everything it points to, but for the buffers and the flag, is copied before tbcclSubmit
 * returns. The call takes its place in the communicator's order when it is submitted, whenever
 * it starts. The deadline counts from its start. */
typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  tbcclOperation_t operation;
  tbcclComm_t comm;
  const void* sendbuff;
  void* recvbuff;
  size_t count;
  tbcclDataType_t datatype;
  tbcclRedOp_t op;
  int root; /* of rooted collectives; send and recv: the peer; send-receive: whom to send to */
  int tag;
  int64_t timeoutMs; /* TBCCL_UNSET_I64: the communicator's; 0: none */
  tbcclCallback_t callback;
  void* callbackContext;
  tbcclStartWhen_t startWhen;
  const volatile uint32_t* flag;
  uint32_t flagValue;
  int descriptor;
  /* `count` is what the named function calls count or sendcount. */
  int source;       /* send-receive: whom to receive from */
  size_t recvcount; /* send-receive, and v-forms that receive one block */
  const size_t* sendcounts;
  const size_t* senddispls;
  const size_t* recvcounts;
  const size_t* recvdispls;
} tbcclCall_t;

#define TBCCL_CALL_INITIALIZER                                                                     \
  {                                                                                                \
    sizeof(tbcclCall_t), TBCCL_CALL_MAGIC, TBCCL_VERSION_CODE, tbcclOpAllReduce, NULL, NULL, NULL, \
        0, tbcclInt8, tbcclSum, 0, 0, TBCCL_UNSET_I64, NULL, NULL, tbcclStartNow, NULL, 0, -1, 0,  \
        0, NULL, NULL, NULL, NULL                                                                  \
  }

/* Submits one operation; `request` as for the named functions, which are its short forms. */
TBCCL_API tbcclResult_t tbcclSubmit(const tbcclCall_t* call, tbcclRequest_t* request);

/* ---- requests ------------------------------------------------------------------------------
 * A completed request stays valid until it is freed. wait and test do not free it. One thread at
 * a time may wait for a request. */

/* *done = 1 and the operation's result, or *done = 0 and tbcclSuccess. Never blocks; carries the
 * operation on for a moment where no other thread does. */
TBCCL_API tbcclResult_t tbcclTest(tbcclRequest_t request, int* done);

/* Waits up to timeoutMs (negative: as long as the operation's own deadline allows). Running out
 * of timeoutMs returns tbcclInProgress and breaks nothing. */
TBCCL_API tbcclResult_t tbcclWait(tbcclRequest_t request, int64_t timeoutMs);

/* Waits until one of `count` requests is complete; *index tells which (NULL entries are skipped;
 * count of non-NULL entries 0: tbcclInvalidArgument). Returns that operation's result. */
TBCCL_API tbcclResult_t tbcclWaitAny(int count, const tbcclRequest_t* requests, int* index,
                                     int64_t timeoutMs);

/* Waits for all of them (NULL entries are skipped); returns the first error in array order. */
TBCCL_API tbcclResult_t tbcclWaitAll(int count, const tbcclRequest_t* requests, int64_t timeoutMs);

/* The rank that a completed receive came from. */
TBCCL_API tbcclResult_t tbcclRequestSource(tbcclRequest_t request, int* source);

/* Frees the request and sets *request to NULL. An active operation is detached: it goes on, its
 * buffers stay the library's until it is complete. */
TBCCL_API tbcclResult_t tbcclRequestFree(tbcclRequest_t* request);

/* ---- persistent requests --------------------------------------------------------------------
 * An operation that is made again and again with the same arguments is planned once, and started
 * any number of times: without planning, and, after the first time, without allocating memory. The
 * contents of the buffers may change between its starts.
 * A request made here is complete until it is started, and again when the operation is; then it may
 * be started once more. test, wait and free work on it as on others; freed while it is in progress
 * it is detached. Each start takes its place in the order of the communicator's operations, so that
 * other ranks may start a request of their own, or make the call. A callback is called for each
 * start, and may start the request again. */

/* The request of a call, which is not submitted. */
TBCCL_API tbcclResult_t tbcclCallInit(const tbcclCall_t* call, tbcclRequest_t* request);

/* Short forms. */
TBCCL_API tbcclResult_t tbcclAllReduceInit(const void* sendbuff, void* recvbuff, size_t count,
                                           tbcclDataType_t datatype, tbcclRedOp_t op,
                                           tbcclComm_t comm, tbcclRequest_t* request);
TBCCL_API tbcclResult_t tbcclBroadcastInit(const void* sendbuff, void* recvbuff, size_t count,
                                           tbcclDataType_t datatype, int root, tbcclComm_t comm,
                                           tbcclRequest_t* request);
TBCCL_API tbcclResult_t tbcclBarrierInit(tbcclComm_t comm, tbcclRequest_t* request);
TBCCL_API tbcclResult_t tbcclSendInit(const void* sendbuff, size_t count, tbcclDataType_t datatype,
                                      int peer, int tag, tbcclComm_t comm, tbcclRequest_t* request);
TBCCL_API tbcclResult_t tbcclRecvInit(void* recvbuff, size_t count, tbcclDataType_t datatype,
                                      int peer, int tag, tbcclComm_t comm, tbcclRequest_t* request);

/* Starts it. tbcclInvalidArgument, and no effect, where it is in progress or not persistent. Inside
 * a group it is started at the group's end, and may not be used before. Never blocks. */
TBCCL_API tbcclResult_t tbcclStart(tbcclRequest_t request);

/* Starts `count` requests, in array order. tbcclInvalidArgument for one of them: none is started.
 */
TBCCL_API tbcclResult_t tbcclStartAll(int count, const tbcclRequest_t* requests);

/* ---- groups --------------------------------------------------------------------------------
 * Calls between start and end (nestable, per thread) are submitted together at the outermost
 * end. Inside a group a NULL request means: complete when tbcclGroupEnd returns; other requests
 * are valid from then on. So one thread can drive all communicators of tbcclCommInitAll. An
 * error of a call inside the group is returned by that call if it is found at once
 * (tbcclInvalidArgument: that call is not part of the group), otherwise by tbcclGroupEnd.
 * Sends and receives may stand in any order, on each rank in another one: all of a group are one
 * exchange. Collectives of one communicator that follow each other, whatever messages are between,
 * and are of one kind (all-reduce, or broadcast of one root; one type, one built-in operator; of 4
 * KiB or less; no start condition) may be carried out as one, with the same bits. So all ranks must
 * put the same collectives into the same groups, with a start condition on all ranks or on none,
 * and started by tbcclStart on all or on none; where they do not it is found, as tbcclInvalidUsage.
 */
TBCCL_API tbcclResult_t tbcclGroupStart(void);
TBCCL_API tbcclResult_t tbcclGroupEnd(void);

#ifdef __cplusplus
}
#endif

#endif
