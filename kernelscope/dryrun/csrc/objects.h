/* The objects behind handles, and what the parts of the driver offer to each other. Included by driver.h. */
#ifndef KERNELSCOPE_DRYRUN_OBJECTS_H
#define KERNELSCOPE_DRYRUN_OBJECTS_H

/* ---- devices (settings.c, profiles.c, devices.c) ---- */

typedef struct Profile {
    int capability; /* 90 for 9.0 */
    int sm_count, threads_per_sm, blocks_per_sm;
    int shared_per_sm, shared_per_block_optin, shared_reserved, shared_granularity;
    int l2_bytes, clock_khz, memory_clock_khz, memory_bus_bits, single_to_double_ratio;
    size_t memory_bytes;
} Profile;

const Profile *profile_of(int capability); /* NULL when there is none */
bool settings_read(void);
void devices_start(void);
bool device_exists(CUdevice device);
CUresult device_attribute(int *value, CUdevice_attribute attribute, CUdevice device);

#define REQUIRE_DEVICE(device) REQUIRE(device_exists(device), CUDA_ERROR_INVALID_DEVICE)

/* ---- contexts (contexts.c) ---- */

#define CONTEXT_LIMITS 10

typedef struct Context {
    CUcontext handle;
    CUdevice device;
    bool primary, active;
    unsigned flags, retained;
    unsigned long long id;
    size_t limits[CONTEXT_LIMITS];
    CUfunc_cache cache_config;
} Context;

void contexts_start(void);
CUresult context_current(Context **context);
Context *context_find(CUcontext handle);
Context *context_primary(CUdevice device);

/* ---- memory (memory.c, pools.c, copies.c, copy_calls.c) ---- */

typedef enum MemoryKind { MEMORY_DEVICE = 1, MEMORY_HOST, MEMORY_MANAGED, MEMORY_REGISTERED } MemoryKind;

typedef struct Pool {
    CUmemoryPool handle;
    CUmemPoolProps properties;
    MemoryKind kind;
    CUdevice device;
    bool built_in;
    int reuse[3]; /* the three reuse policies */
    cuuint64_t release_threshold, used, used_high;
} Pool;

typedef struct Allocation {
    char *start;
    size_t bytes, mapped_bytes; /* mapped_bytes is 0 for memory that the caller owns */
    MemoryKind kind;
    CUdevice device;
    Pool *pool;
    CUcontext context;
    unsigned flags;
    unsigned long long id;
    int sync_memops;
} Allocation;

CUresult memory_allocate(size_t bytes, MemoryKind kind, Context *context, Pool *pool, unsigned flags,
                         Allocation **allocation);
CUresult memory_free(CUdeviceptr pointer, unsigned kinds); /* kinds: an OR of 1 << MemoryKind */
Allocation *memory_find(CUdeviceptr pointer);              /* by any address inside it */
bool memory_holds(CUdeviceptr pointer, size_t bytes);      /* the whole range is in one allocation */
void memory_start(void);
void pools_start(void);
void pool_used(Pool *pool, size_t bytes);
void pool_unused(Pool *pool, size_t bytes);
void pool_free_if_over(Pool *pool);

CUresult copy_check(const CUDA_MEMCPY3D *copy);
void copy_run(const CUDA_MEMCPY3D *copy);
CUresult fill_check(const CUDA_MEMSET_NODE_PARAMS *fill);
void fill_run(const CUDA_MEMSET_NODE_PARAMS *fill);

/* ---- libraries and kernels (libraries.c, image.c, cubin.c, ptx.c, library_calls.c, kernels.c, occupancy.c) ---- */

typedef struct Parameter {
    unsigned offset, bytes;
} Parameter;

typedef struct Kernel {
    CUfunction handle; /* serves as the CUkernel, too */
    char *name;
    struct Library *library;
    int registers, static_shared_bytes, local_bytes, constant_bytes, max_threads;
    int parameter_count; /* -1: not known */
    Parameter *parameters;
    int max_dynamic_shared[MAX_DEVICES]; /* what cuFuncSetAttribute allowed, 0 when nothing */
    unsigned required_cluster[3]; /* compiled into it; 0 when free */
    int preferred_carveout, non_portable_cluster;
} Kernel;

typedef struct Global {
    char *name;
    CUdeviceptr pointer;
    size_t bytes;
} Global;

typedef struct Library {
    CUlibrary handle; /* serves as the CUmodule, too */
    long references;  /* one while it is loaded, one for each graph node with a kernel of it */
    Kernel **kernels;
    unsigned kernel_count;
    Global *globals;
    unsigned global_count;
    int capability;   /* of the code in it; 0: not known */
    bool portable;    /* PTX: runs on newer devices, too */
    bool any_name;    /* a fat binary, which is not read: every kernel name is found in it */
} Library;

typedef struct Bytes {
    const unsigned char *data;
    size_t size;
} Bytes;

CUresult image_copy(const void *image, Bytes *copy); /* reads only what is mapped; free copy->data */
CUresult cubin_read(Library *library, Bytes image, Context *context);
CUresult ptx_read(Library *library, Bytes image, Context *context);
Kernel *library_add_kernel(Library *library, const char *name, size_t length);
Kernel *library_find_kernel(const Library *library, const char *name, size_t length);
CUresult library_add_global(Library *library, const char *name, size_t bytes, const void *value, Context *context);
void kernel_add_parameter(Kernel *kernel, unsigned index, unsigned offset, unsigned bytes);
bool library_runs_on(const Library *library, CUdevice device);
void library_release(Library *library);
void library_unload(Library *library);

Kernel *kernel_find(CUfunction handle);
size_t kernel_parameter_bytes(const Kernel *kernel);
int kernel_max_dynamic_shared(const Kernel *kernel, CUdevice device);
CUresult kernel_attribute(const Kernel *kernel, CUfunction_attribute attribute, CUdevice device, int *value);

int occupancy_blocks(const Kernel *kernel, const Profile *profile, int block_threads, size_t dynamic_shared);

/* ---- streams, events, capture (streams.c, events.c, capture_rules.c, captures.c, capture_calls.c) ---- */

typedef struct NodeSet {
    struct Node **items;
    size_t count, capacity;
} NodeSet;

bool node_set_has(const NodeSet *set, const struct Node *node);
void node_set_add(NodeSet *set, struct Node *node);
void node_set_add_all(NodeSet *set, const NodeSet *other);
void node_set_remove(NodeSet *set, const struct Node *node);
void node_set_clear(NodeSet *set); /* and free */

typedef struct Capture {
    unsigned long long id;
    struct Graph *graph;
    struct Stream *origin;
    CUstreamCaptureMode mode;
    bool owns_graph, invalid;
    pthread_t thread;
    struct Capture *next;
} Capture;

typedef struct Stream {
    CUstream handle;
    CUdevice device;
    CUcontext context;
    unsigned flags;
    int priority;
    bool legacy, built_in;
    unsigned long long id;
    Capture *capture;             /* the capture that it is part of */
    NodeSet dependencies;         /* there: what its next node will depend on */
    CUgraphNode *reported_handles; /* kept for the caller of cuStreamGetCaptureInfo */
    struct Stream *next, **link;
} Stream;

typedef struct Event {
    CUevent handle;
    CUdevice device;
    unsigned flags;
    bool recorded;
    double recorded_ms;
    unsigned long long capture_id; /* 0: not recorded in a capture */
    NodeSet dependencies;
} Event;

extern Stream *all_streams;
extern Capture *all_captures;

void streams_start(void);
CUresult stream_find(const Context *context, CUstream handle, Stream **stream);
Event *event_find(CUevent handle);
void event_record_now(Event *event);

CUresult stream_submit(const Stream *stream); /* whether work may enter it now: as a graph node if it is captured */
CUresult stream_for_work(const Context *context, CUstream handle, Stream **stream); /* found, and work may enter it */
CUresult stream_not_captured(const Context *context, CUstream handle); /* otherwise it spoils the capture */
struct Node *stream_add_node(Stream *stream, CUgraphNodeType type);
CUresult capture_forbids_unsafe_call(void);
CUresult capture_forbids_synchronize(const Context *context);
Capture *capture_by_id(unsigned long long id);
bool capture_is_own(const Capture *capture); /* by this thread */
Capture *capture_before_legacy(const Stream *legacy);
void capture_end(Capture *capture);
void capture_abandon(Capture *capture);
bool capture_uses(const struct Graph *graph);

/* ---- launches (launch.c, launch_calls.c) ---- */

typedef struct Launch {
    Kernel *kernel;
    unsigned grid[3], block[3], cluster[3];
    unsigned dynamic_shared;
    bool has_cluster, cooperative;
    char *arguments;      /* a copy of the argument values; NULL outside graphs */
    void **argument_list; /* pointers into it */
} Launch;

CUresult launch_check(const Launch *launch, CUdevice device);
CUresult launch_check_arguments(const Kernel *kernel, void **parameters, void **extra);
CUresult launch_keep_arguments(Launch *launch, void **parameters, void **extra);
CUresult launch_copy(Launch *copy, const Launch *source);
void launch_set_attribute(Launch *launch, CUlaunchAttributeID attribute, const CUlaunchAttributeValue *value);
void launch_clear(Launch *launch);
void call_unlocked(CUhostFn function, void *argument);

/* ---- graphs (graphs.c, graph_*.c) ---- */

typedef struct GraphMemory { /* of an allocation node and its clones */
    CUdeviceptr pointer;
    CUdevice device;
    size_t bytes;
    unsigned long long allocation_id;
    long references;
} GraphMemory;

typedef struct Node {
    CUgraphNode handle;
    CUgraphNodeType type;
    struct Graph *graph;
    NodeSet dependencies;
    CUgraphNode original; /* of a clone: the node that it was cloned from */
    unsigned long long id;
    size_t number;   /* in its own graph, in the order of their making: it stays */
    size_t position; /* scratch for sorting and cloning */
    bool enabled;
    union {
        Launch launch;
        CUDA_MEMCPY3D copy;
        CUDA_MEMSET_NODE_PARAMS fill;
        CUDA_HOST_NODE_PARAMS host;
        CUevent event;
        struct Graph *child;
        CUdeviceptr freed;
        struct {
            CUDA_MEM_ALLOC_NODE_PARAMS parameters;
            GraphMemory *memory;
        } alloc;
        struct {
            CUgraphConditionalHandle handle;
            CUgraphConditionalNodeType type;
            unsigned count;
            struct Graph **bodies;
            CUgraph *handles; /* what the caller got in phGraph_out */
        } conditional;
    } as;
} Node;

typedef struct UserObject {
    CUuserObject handle;
    void *pointer;
    CUhostFn destroy;
    unsigned long references;
} UserObject;

typedef struct OwnedObject {
    UserObject *object;
    unsigned long count;
} OwnedObject;

typedef struct Graph {
    CUgraph handle;
    unsigned long long id;
    CUgraph original;
    Node *parent; /* of a child graph or a conditional body: the node that owns it */
    Node **nodes;
    size_t node_count, node_capacity, next_number;
    OwnedObject *objects;
    size_t object_count;
    CUgraphConditionalHandle *conditionals; /* handles that no node uses yet */
    size_t conditional_count;
} Graph;

typedef struct Exec {
    CUgraphExec handle;
    Graph *graph; /* a clone, its nodes in topological order */
    unsigned long long id, flags;
    long running;   /* launches under way, waiting for a host function of the graph to return */
    bool destroyed; /* by the caller, while one was running */
} Exec;

Graph *graph_new(void);
Graph *graph_find(CUgraph handle);
Graph *graph_clone(const Graph *source); /* nodes in topological order; NULL when it has a cycle */
void graph_free(Graph *graph);
bool graph_sort(const Graph *graph, Node **order); /* writes each node's position, too; false for a cycle */

Node *node_new(Graph *graph, CUgraphNodeType type);
Node *node_find(CUgraphNode handle);
void node_remove(Node *node); /* from its graph, and free it */
void node_free(Node *node);
void node_clear(Node *node); /* releases what its parameters hold */
bool node_has_memory(const Node *node); /* allocates or frees: such nodes cannot be cloned by the caller, nor removed */
bool node_copy_parameters(Node *copy, const Node *source); /* false when a graph inside has a cycle */
CUresult node_set_parameters(Node *node, const CUgraphNodeParams *parameters);
CUresult node_set_launch(Node *node, const CUDA_KERNEL_NODE_PARAMS *parameters);
CUresult node_set_copy(Node *node, const CUDA_MEMCPY3D *parameters);
CUresult node_set_fill(Node *node, const CUDA_MEMSET_NODE_PARAMS *parameters);
CUresult node_set_host(Node *node, const CUDA_HOST_NODE_PARAMS *parameters);
CUresult node_set_event(Node *node, CUevent event);
CUresult node_set_child(Node *node, CUgraph child);
CUresult node_add_allocation(Node *node, CUDA_MEM_ALLOC_NODE_PARAMS *parameters, Context *context);
void graph_memory_release(GraphMemory *memory);

Exec *exec_find(CUgraphExec handle);
extern __thread bool graph_launch_was_captured; /* the thread's last cuGraphLaunch */

void user_objects_clone(Graph *clone, const Graph *source);
void user_objects_release(Graph *graph);

#endif
