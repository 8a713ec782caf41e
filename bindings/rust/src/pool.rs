//! Pools, their streams and their blocks.
use crate::device::{c_text, Device, NativeStream};
use crate::error::{check, kind_of, written, Error, ErrorKind, Result};
use crate::sys;
use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt;
use std::mem::{size_of, zeroed};
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex, Weak};

/// The rule that selects memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Best fit at constant cost.
    #[default]
    Caching,
    /// Slabs of equal slots.
    SizeClass,
    /// A pointer that moves on, for blocks that end together.
    Bump,
}

/// Whether a pool waits or grows for memory that other streams may still touch (`weir_growth` in weir/pool.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Growth {
    #[default]
    Balanced,
    GrowFirst,
    WaitFirst,
}

/// Options of a pool; `PoolOptions::default()` has none set.
#[derive(Clone, Copy, Debug, Default)]
pub struct PoolOptions {
    pub strategy: Strategy,
    pub growth: Growth,
    /// The most bytes that the pool may reserve from the device; 0: no limit.
    pub limit_bytes: u64,
    /// Above it the pool first waits and gives idle memory back; 0: none.
    pub soft_limit_bytes: u64,
    /// Take regions of the device in the place of mapped memory.
    pub regions: bool,
}

struct PoolLife {
    handle: *mut c_void,
    streams: Mutex<HashMap<usize, Weak<StreamLife>>>, // by the native handle: one StreamLife for each
    device: Device,
}

unsafe impl Send for PoolLife {} // every function of a pool may be called from any thread
unsafe impl Sync for PoolLife {}

impl Drop for PoolLife {
    fn drop(&mut self) {
        unsafe { sys::weir_pool_destroy(self.handle) };
    }
}

impl PoolLife {
    fn check(&self, status: i32) -> Result<()> {
        match kind_of(status) {
            Some(ErrorKind::Device) => Err(Error::new(ErrorKind::Device, self.device.0.error())),
            _ => check(status),
        }
    }

    fn oom_report(&self) -> String {
        let mut record = vec![0u64; 1024]; // room for the record of a newer library too
        record[0] = 8 * 1024;
        let status = unsafe { sys::weir_pool_get_oom(self.handle, record.as_mut_ptr() as *mut c_void) };
        if status != 0 || record[1] == 0 {
            return String::from("out of memory");
        }
        written(|text, size| unsafe { sys::weir_oom_explain(record.as_ptr() as *const c_void, text, size) })
    }
}

/// A pool of device memory in stream order.
///
/// ```
/// use weir::{Pool, PoolOptions, Simulator, SimulatorOptions};
///
/// # fn main() -> weir::Result<()> {
/// let device = Simulator::new(SimulatorOptions::default())?;
/// let pool = Pool::new(&device, PoolOptions { limit_bytes: 1 << 30, ..Default::default() })?;
/// let stream = pool.default_stream()?;
/// for _layer in 0..100 {
///     let block = stream.alloc(3 << 20)?;
///     device.fill(&stream.native(), &block, 0, "layer")?; // queued, not yet run
/// } // freed while the fill is still queued: the memory serves the next layer, in the stream's order
/// assert_eq!(pool.stats()?.peak_reserved_bytes, 4 << 20);
/// assert!(device.findings().is_empty());
/// # Ok(())
/// # }
/// ```
///
/// A clone is the same pool. The pool ends with its last clone, stream and block, so a block never outlives it. A child of
/// fork must not use it.
#[derive(Clone)]
pub struct Pool(Arc<PoolLife>);

/// The name of a user of blocks, in reports: [`Pool::tag`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag(u32);

impl fmt::Debug for Pool {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Pool at {:p}", self.0.handle)
    }
}

impl Pool {
    pub fn new(device: &Device, options: PoolOptions) -> Result<Pool> {
        let mut config: sys::weir_pool_config = unsafe { zeroed() };
        config.struct_size = size_of::<sys::weir_pool_config>();
        config.device = device.0.handle;
        config.strategy = unsafe {
            match options.strategy {
                Strategy::Caching => sys::weir_caching_strategy(),
                Strategy::SizeClass => sys::weir_size_class_strategy(),
                Strategy::Bump => sys::weir_bump_strategy(),
            }
        };
        config.growth = options.growth as i32;
        config.limit_bytes = options.limit_bytes;
        config.soft_limit_bytes = options.soft_limit_bytes;
        config.flags = if options.regions { 1 << 3 } else { 0 };
        let mut handle = null_mut();
        check(unsafe { sys::weir_pool_create(&config, &mut handle) })?;
        Ok(Pool(Arc::new(PoolLife { handle, streams: Mutex::new(HashMap::new()), device: device.clone() })))
    }

    /// The pool's handle of a stream of its device: the same one every time. Keep it: each call looks it up.
    pub fn stream(&self, native: &NativeStream) -> Result<Stream> {
        if !Arc::ptr_eq(&native.device.0, &self.0.device.0) {
            return Err(Error::new(ErrorKind::Invalid, "Pool::stream: the stream belongs to another device"));
        }
        let mut streams = self.0.streams.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(known) = streams.get(&(native.handle as usize)).and_then(Weak::upgrade) {
            return Ok(Stream(known));
        }
        let mut handle = null_mut();
        check(unsafe { sys::weir_pool_stream(self.0.handle, native.handle, &mut handle) })?;
        let life = Arc::new(StreamLife { pool: self.0.clone(), handle, native: native.handle });
        streams.insert(native.handle as usize, Arc::downgrade(&life));
        Ok(Stream(life))
    }

    /// The handle of the device's default stream.
    pub fn default_stream(&self) -> Result<Stream> {
        self.stream(&NativeStream { device: self.0.device.clone(), handle: null_mut() })
    }

    /// The tag of a name: the same one every time. A pool has at most 255.
    pub fn tag(&self, name: &str) -> Result<Tag> {
        let name = c_text(name);
        let mut tag = 0;
        check(unsafe { sys::weir_pool_tag(self.0.handle, name.as_ptr(), &mut tag) })?;
        Ok(Tag(tag))
    }

    /// The figures of one tag's blocks; `Tag::default()`: of those without a tag.
    pub fn tag_stats(&self, tag: Tag) -> Result<sys::weir_tag_stats> {
        let mut stats: sys::weir_tag_stats = unsafe { zeroed() };
        stats.struct_size = size_of::<sys::weir_tag_stats>();
        check(unsafe { sys::weir_pool_get_tag_stats(self.0.handle, tag.0, &mut stats) })?;
        Ok(stats)
    }

    /// The current figures.
    pub fn stats(&self) -> Result<sys::weir_pool_stats> {
        let mut stats: sys::weir_pool_stats = unsafe { zeroed() };
        stats.struct_size = size_of::<sys::weir_pool_stats>();
        check(unsafe { sys::weir_pool_get_stats(self.0.handle, &mut stats) })?;
        Ok(stats)
    }

    /// Changes both limits; 0: none. Idle memory above them goes back to the device.
    pub fn set_limits(&self, soft_limit_bytes: u64, limit_bytes: u64) -> Result<()> {
        self.0.check(unsafe { sys::weir_pool_set_limits(self.0.handle, soft_limit_bytes, limit_bytes) })
    }

    /// Gives idle memory back to the device until at most `keep_bytes` are reserved; with `waits` also memory that queued
    /// work may touch, after that work. Returns the bytes given back.
    pub fn trim(&self, keep_bytes: u64, waits: bool) -> Result<u64> {
        let mut released = 0;
        self.0.check(unsafe { sys::weir_pool_trim(self.0.handle, keep_bytes, u32::from(waits), &mut released) })?;
        Ok(released)
    }

    /// Checks the invariants of the pool. Other threads may go on.
    pub fn check(&self) -> Result<()> {
        let mut why = null();
        match unsafe { sys::weir_pool_check(self.0.handle, &mut why) } {
            -7 => Err(Error::new(ErrorKind::Internal, unsafe { crate::error::copy_text(why) })),
            status => check(status),
        }
    }
}

struct StreamLife {
    pool: Arc<PoolLife>,
    handle: *mut c_void,
    native: *mut c_void,
}

unsafe impl Send for StreamLife {}
unsafe impl Sync for StreamLife {}

/// A pool's handle of a stream. A clone is the same stream.
#[derive(Clone)]
pub struct Stream(Arc<StreamLife>);

impl fmt::Debug for Stream {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Stream at {:p}", self.0.native)
    }
}

impl Stream {
    /// A block of `size` bytes, for work that will be queued on this stream. `NoMemory` has the pool's report.
    #[inline]
    pub fn alloc(&self, size: u64) -> Result<Block> {
        self.alloc_with(size, 0, Tag::default())
    }

    /// The same at a multiple of `align` (0: the strategy's own, else a power of two), counted under a tag.
    pub fn alloc_with(&self, size: u64, align: u64, tag: Tag) -> Result<Block> {
        let pool = &self.0.pool;
        let mut handle = null_mut();
        let status =
            unsafe { sys::weir_pool_alloc_tagged(pool.handle, self.0.handle, size, align, tag.0, &mut handle) };
        match kind_of(status) {
            Some(kind @ (ErrorKind::NoMemory | ErrorKind::Limit)) => return Err(Error::new(kind, pool.oom_report())),
            _ => pool.check(status)?,
        }
        let block = Block { handle, stream: self.clone() };
        pool.device.0.announce(true, block.address(), size, self.0.native);
        Ok(block)
    }

    /// How many of `count` blocks of `size` bytes would now certainly succeed.
    pub fn would_fit(&self, size: u64, count: u64) -> Result<u64> {
        let mut fit = 0;
        check(unsafe { sys::weir_pool_would_fit(self.0.pool.handle, self.0.handle, size, count, &mut fit) })?;
        Ok(fit)
    }

    /// Tells the pool that the host has waited for all work queued on the stream.
    ///
    /// # Safety
    /// The host has done so: the memory of blocks freed on this stream may be handed to any stream at once.
    pub unsafe fn synced(&self) -> Result<()> {
        check(sys::weir_stream_synced(self.0.pool.handle, self.0.handle))
    }

    /// Waits for the stream's work and forgets the stream: before the vendor's stream is destroyed. `Busy` while a block or
    /// a clone of this value lives.
    pub fn retire(self) -> Result<()> {
        let pool = self.0.pool.clone();
        let mut streams = pool.streams.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let life = Arc::try_unwrap(self.0).map_err(|_| {
            Error::new(ErrorKind::Busy, "Stream::retire: a block or a clone of the stream is still in use")
        })?;
        pool.check(unsafe { sys::weir_stream_retire(pool.handle, life.handle) })?;
        streams.remove(&(life.native as usize));
        Ok(())
    }

    pub fn native(&self) -> NativeStream {
        NativeStream { device: self.0.pool.device.clone(), handle: self.0.native }
    }

    pub fn pool(&self) -> Pool {
        Pool(self.0.pool.clone())
    }
}

/// A block of a pool: an address for work on a stream. Dropped, it is freed in the order of the stream of its alloc: work
/// queued on that stream so far may still use it. Work of other streams is announced by [`Block::used_on`].
pub struct Block {
    handle: *mut c_void,
    stream: Stream,
}

impl fmt::Debug for Block {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Block of {} bytes at {:#x}", self.size(), self.address())
    }
}

unsafe impl Send for Block {} // the handle is read by one thread at a time where it changes: drop takes the block
unsafe impl Sync for Block {}

impl Block {
    /// The address on the device.
    #[inline]
    pub fn address(&self) -> u64 {
        unsafe { sys::weir_block_address(self.handle) }
    }

    /// The bytes that were requested.
    #[inline]
    pub fn size(&self) -> u64 {
        unsafe { sys::weir_block_size(self.handle) }
    }

    /// The bytes that were handed out, at least the size.
    #[inline]
    pub fn capacity(&self) -> u64 {
        unsafe { sys::weir_block_capacity(self.handle) }
    }

    /// The stream of the alloc.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// States that work of another stream touches the block, queued before or after this call.
    pub fn used_on(&self, stream: &Stream) -> Result<()> {
        check(unsafe { sys::weir_pool_use((self.stream.0).pool.handle, self.handle, stream.0.handle) })
    }

    /// Frees the block in the order of another stream, the one that used it last. If that fails, the block stays live until
    /// the pool ends.
    pub fn free_on(self, stream: &Stream) -> Result<()> {
        let block = std::mem::ManuallyDrop::new(self);
        let own = unsafe { std::ptr::read(&block.stream) }; // dropped at the end of this call
        free(block.handle, &own.0, &stream.0)
    }
}

impl Drop for Block {
    #[inline]
    fn drop(&mut self) {
        let _ = free(self.handle, &self.stream.0, &self.stream.0); // refused: the block stays live
    }
}

/// Frees a block of the pool of `own` in the order of `stream`.
fn free(block: *mut c_void, own: &StreamLife, stream: &StreamLife) -> Result<()> {
    let address = unsafe { sys::weir_block_address(block) };
    if Arc::ptr_eq(&own.pool, &stream.pool) {
        own.pool.device.0.announce(false, address, 0, stream.native); // before another thread may get the memory
    }
    check(unsafe { sys::weir_pool_free(own.pool.handle, block, stream.handle) })
}
