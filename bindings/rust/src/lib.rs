//! Memory allocators for AI accelerators.
//!
//! - [`Allocator`]: a heap as the program's allocator, with a limit and statistics
//! - [`Pool`], [`Stream`], [`Block`]: device memory in stream order, over a [`Simulator`], an Ascend device or a GPU
//!
//! The crate calls the C library weir, which is installed apart; docs/rust.md in the sources is the guide. It has no other
//! dependency than the standard library.
mod allocator;
mod device;
mod error;
mod pool;
mod sys;

pub use allocator::Allocator;
pub use device::{Device, NativeStream, Simulator, SimulatorOptions};
pub use error::{Error, ErrorKind, Result};
pub use pool::{Block, Growth, Pool, PoolOptions, Strategy, Stream, Tag};
pub use sys::weir_heap_stats as HeapStats;
pub use sys::weir_pool_stats as PoolStats;
pub use sys::weir_tag_stats as TagStats;

/// The version of the C library, which may differ from the crate's.
pub fn version() -> String {
    unsafe { error::copy_text(sys::weir_version()) }
}
