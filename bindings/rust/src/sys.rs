//! The C interface: functions and structs with the names and members of weir's headers (a test compares each offset).
#![allow(non_camel_case_types)]
use std::os::raw::{c_char, c_int, c_void};

pub const RUNGS: usize = 15;
pub const SIZE_BUCKETS: usize = 48;

/// Figures of a heap: `weir_heap_stats` in weir/heap.h explains each.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct weir_heap_stats {
    pub(crate) struct_size: usize,
    pub allocs: u64,
    pub frees: u64,
    pub reallocs: u64,
    pub moves: u64,
    pub failures: u64,
    pub reclaims: u64,
    pub bad_frees: u64,
    pub live_blocks: u64,
    pub live_bytes: u64,
    pub peak_live_bytes: u64,
    pub long_lived_bytes: u64,
    pub largest_bytes: u64,
    pub held_bytes: u64,
    pub peak_held_bytes: u64,
    pub limit_bytes: u64,
    pub decayed_bytes: u64,
    pub decays: u64,
    pub decay_failures: u64,
    pub moved_bytes: u64,
    pub remade_bytes: u64,
}

#[repr(C)]
pub struct weir_sim_costs {
    pub call_ns: [u64; 16],
    pub region_alloc_ns_per_mib: u64,
    pub region_free_ns_per_mib: u64,
    pub vm_create_ns_per_mib: u64,
    pub launch_ns: u64,
    pub transfer_ns: u64,
    pub device_copy_ns_per_mib: u64,
    pub host_copy_ns_per_mib: u64,
    pub fill_ns_per_mib: u64,
}

#[repr(C)]
pub struct weir_sim_config {
    pub(crate) struct_size: usize,
    pub mode: c_int,
    pub capacity_bytes: u64,
    pub region_granularity_bytes: u64,
    pub page_bytes: u64,
    pub seed: u64,
    pub address_base: u64,
    pub costs: weir_sim_costs,
    pub no_audit: bool,
    pub no_virtual_memory: bool,
    pub no_ordering: bool,
    pub max_findings: u32,
    pub direct_access: bool,
    pub shared_limit: *mut c_void,
}

#[repr(C)]
pub struct weir_sim_operation {
    pub what: *const c_char,
    pub tag: [c_char; 48],
    pub stream: u32,
    pub tick: u64,
    pub start_ns: u64,
    pub end_ns: u64,
    pub number: u64,
}

#[repr(C)]
pub struct weir_sim_finding {
    pub kind: c_int,
    pub address: u64,
    pub size: u64,
    pub earlier: weir_sim_operation,
    pub later: weir_sim_operation,
    pub in_flight: bool,
    pub text: [c_char; 448],
}

#[repr(C)]
pub struct weir_pool_config {
    pub(crate) struct_size: usize,
    pub device: *mut c_void,
    pub strategy: *const c_void,
    pub strategy_config: *const c_void,
    pub limit_bytes: u64,
    pub growth: c_int,
    pub flags: u32,
    pub oom_callback: *const c_void,
    pub oom_ctx: *mut c_void,
    pub soft_limit_bytes: u64,
    pub pressure_callback: *const c_void,
    pub pressure_ctx: *mut c_void,
}

/// Figures of a pool: `weir_pool_stats` in weir/pool.h explains each.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct weir_pool_stats {
    pub(crate) struct_size: usize,
    pub allocs: u64,
    pub frees: u64,
    pub failures: u64,
    pub requested_bytes: u64,
    pub live_bytes: u64,
    pub cached_bytes: u64,
    pub pending_bytes: u64,
    pub free_bytes: u64,
    pub reserved_bytes: u64,
    pub peak_requested_bytes: u64,
    pub peak_live_bytes: u64,
    pub peak_reserved_bytes: u64,
    pub largest_free_bytes: u64,
    pub external_fragmentation: f64,
    pub regions: u64,
    pub streams: u64,
    pub served: [u64; RUNGS],
    pub waits: u64,
    pub syncs: u64,
    pub events_recorded: u64,
    pub region_allocs: u64,
    pub region_frees: u64,
    pub device_failures: u64,
    pub device_ns: u64,
    pub sizes: [u64; SIZE_BUCKETS],
    pub vm_creates: u64,
    pub vm_destroys: u64,
    pub vm_maps: u64,
    pub vm_unmaps: u64,
    pub vm_moved_bytes: u64,
    pub limit_bytes: u64,
    pub soft_limit_bytes: u64,
    pub soft_limit_growths: u64,
    pub pressure_calls: u64,
    pub tags: u64,
    pub pinned_bytes: u64,
    pub uncommitted_bytes: u64,
}

/// Figures of the blocks of one tag: `weir_tag_stats` in weir/budget.h explains each.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct weir_tag_stats {
    pub(crate) struct_size: usize,
    pub allocs: u64,
    pub frees: u64,
    pub blocks: u64,
    pub requested_bytes: u64,
    pub peak_requested_bytes: u64,
}

#[cfg(feature = "ascend")]
#[repr(C)]
pub struct weir_acl_device_config {
    pub(crate) struct_size: usize,
    pub device_id: i32,
    pub memory: c_int,
    pub pages: c_int,
    pub flags: u32,
}

#[cfg(feature = "cuda")]
#[repr(C)]
pub struct weir_cuda_device_config {
    pub(crate) struct_size: usize,
    pub ordinal: i32,
    pub flags: u32,
    pub handle_type: c_int,
    pub peers: *const i32,
    pub peer_count: usize,
}

extern "C" {
    pub fn weir_last_error() -> *const c_char;
    pub fn weir_status_text(status: c_int) -> *const c_char;
    pub fn weir_version() -> *const c_char;

    pub fn weir_heap_create(config: *const c_void, heap: *mut *mut c_void) -> c_int;
    pub fn weir_heap_destroy(heap: *mut c_void) -> c_int;
    pub fn weir_heap_alloc(heap: *mut c_void, size: usize) -> *mut c_void;
    pub fn weir_heap_alloc_zeroed(heap: *mut c_void, count: usize, size: usize) -> *mut c_void;
    pub fn weir_heap_alloc_aligned(heap: *mut c_void, size: usize, align: usize) -> *mut c_void;
    pub fn weir_heap_realloc(heap: *mut c_void, block: *mut c_void, size: usize) -> *mut c_void;
    pub fn weir_heap_free(heap: *mut c_void, block: *mut c_void) -> c_int;
    pub fn weir_heap_usable_size(heap: *mut c_void, block: *const c_void) -> usize;
    pub fn weir_heap_trim(heap: *mut c_void, keep_bytes: u64, released: *mut u64) -> c_int;
    pub fn weir_heap_set_limit(heap: *mut c_void, limit_bytes: u64) -> c_int;
    pub fn weir_heap_get_stats(heap: *mut c_void, stats: *mut weir_heap_stats) -> c_int;
    pub fn weir_heap_explain(heap: *mut c_void, text: *mut c_char, size: usize) -> usize;
    pub fn weir_heap_check(heap: *mut c_void, why: *mut *const c_char) -> c_int;

    pub fn weir_device_destroy(device: *mut c_void) -> c_int;
    pub fn weir_device_error(device: *mut c_void, code: *mut i64, text: *mut *const c_char) -> c_int;

    pub fn weir_sim_create(config: *const weir_sim_config, sim: *mut *mut c_void) -> c_int;
    pub fn weir_sim_device(sim: *mut c_void) -> *mut c_void;
    pub fn weir_sim_stream_create(sim: *mut c_void, stream: *mut *mut c_void) -> c_int;
    pub fn weir_sim_sync(sim: *mut c_void) -> c_int;
    pub fn weir_sim_fill(
        sim: *mut c_void,
        stream: *mut c_void,
        address: u64,
        size: u64,
        value: u8,
        tag: *const c_char,
    ) -> c_int;
    pub fn weir_sim_copy_to_host(
        sim: *mut c_void,
        stream: *mut c_void,
        to: *mut c_void,
        from: u64,
        size: u64,
        tag: *const c_char,
    ) -> c_int;
    pub fn weir_sim_block_alloc(sim: *mut c_void, address: u64, size: u64, stream: *mut c_void, tag: *const c_char);
    pub fn weir_sim_block_free(sim: *mut c_void, address: u64, stream: *mut c_void, tag: *const c_char);
    pub fn weir_sim_default_stream(sim: *mut c_void) -> *mut c_void;
    pub fn weir_sim_finding_at(sim: *mut c_void, index: usize, finding: *mut weir_sim_finding) -> bool;

    pub fn weir_caching_strategy() -> *const c_void;
    pub fn weir_size_class_strategy() -> *const c_void;
    pub fn weir_bump_strategy() -> *const c_void;

    pub fn weir_pool_create(config: *const weir_pool_config, pool: *mut *mut c_void) -> c_int;
    pub fn weir_pool_destroy(pool: *mut c_void) -> c_int;
    pub fn weir_pool_stream(pool: *mut c_void, native_stream: *mut c_void, stream: *mut *mut c_void) -> c_int;
    pub fn weir_stream_retire(pool: *mut c_void, stream: *mut c_void) -> c_int;
    pub fn weir_stream_synced(pool: *mut c_void, stream: *mut c_void) -> c_int;
    pub fn weir_pool_tag(pool: *mut c_void, name: *const c_char, tag: *mut u32) -> c_int;
    pub fn weir_pool_get_tag_stats(pool: *mut c_void, tag: u32, stats: *mut weir_tag_stats) -> c_int;
    pub fn weir_pool_alloc_tagged(
        pool: *mut c_void,
        stream: *mut c_void,
        size: u64,
        align: u64,
        tag: u32,
        block: *mut *mut c_void,
    ) -> c_int;
    pub fn weir_pool_free(pool: *mut c_void, block: *mut c_void, stream: *mut c_void) -> c_int;
    pub fn weir_pool_use(pool: *mut c_void, block: *mut c_void, stream: *mut c_void) -> c_int;
    pub fn weir_block_address(block: *const c_void) -> u64;
    pub fn weir_block_size(block: *const c_void) -> u64;
    pub fn weir_block_capacity(block: *const c_void) -> u64;
    pub fn weir_pool_trim(pool: *mut c_void, keep_bytes: u64, flags: u32, released: *mut u64) -> c_int;
    pub fn weir_pool_set_limits(pool: *mut c_void, soft_limit_bytes: u64, limit_bytes: u64) -> c_int;
    pub fn weir_pool_would_fit(pool: *mut c_void, stream: *mut c_void, size: u64, count: u64, fit: *mut u64) -> c_int;
    pub fn weir_pool_get_stats(pool: *mut c_void, stats: *mut weir_pool_stats) -> c_int;
    pub fn weir_pool_get_oom(pool: *mut c_void, record: *mut c_void) -> c_int;
    pub fn weir_oom_explain(record: *const c_void, text: *mut c_char, size: usize) -> usize;
    pub fn weir_pool_check(pool: *mut c_void, why: *mut *const c_char) -> c_int;
}

#[cfg(feature = "ascend")]
extern "C" {
    pub fn weir_acl_device_create(config: *const weir_acl_device_config, device: *mut *mut c_void) -> c_int;
}

#[cfg(feature = "cuda")]
extern "C" {
    pub fn weir_cuda_device_create(config: *const weir_cuda_device_config, device: *mut *mut c_void) -> c_int;
}
