//! Devices: memory, streams and their order.
use crate::error::{check, copy_text, Result};
use crate::sys;
use crate::Block;
use std::ffi::{c_void, CString};
use std::mem::{size_of, zeroed};
use std::ops::Deref;
use std::os::raw::c_char;
use std::ptr::null_mut;
use std::sync::Arc;

pub(crate) struct DeviceLife {
    pub(crate) handle: *mut c_void,
    pub(crate) sim: *mut c_void, // NULL: not a simulator
}

// Every function of a device may be called from any thread.
unsafe impl Send for DeviceLife {}
unsafe impl Sync for DeviceLife {}

impl Drop for DeviceLife {
    fn drop(&mut self) {
        unsafe { sys::weir_device_destroy(self.handle) }; // refused: memory is not back, and the device stays
    }
}

impl DeviceLife {
    /// The runtime's own text for this thread's last failure.
    pub(crate) fn error(&self) -> String {
        let (mut code, mut text) = (0, std::ptr::null());
        let status = unsafe { sys::weir_device_error(self.handle, &mut code, &mut text) };
        if status == 0 {
            unsafe { copy_text(text) }
        } else {
            String::new()
        }
    }
}

/// A device. A clone is the same device; it ends with its last clone, pool, stream and block.
#[derive(Clone)]
pub struct Device(pub(crate) Arc<DeviceLife>);

impl Device {
    /// Takes over a device that C code has made (weir/device.h).
    ///
    /// # Safety
    /// `handle` is a live `weir_device`, and from now on nothing else destroys it.
    pub unsafe fn from_raw(handle: *mut c_void) -> Device {
        Device(Arc::new(DeviceLife { handle, sim: null_mut() }))
    }

    /// An Ascend device by its number, over the ACL runtime of CANN.
    #[cfg(feature = "ascend")]
    pub fn ascend(device_id: i32) -> Result<Device> {
        let mut config: sys::weir_acl_device_config = unsafe { zeroed() };
        config.struct_size = size_of::<sys::weir_acl_device_config>();
        config.device_id = device_id;
        let mut handle = null_mut();
        check(unsafe { sys::weir_acl_device_create(&config, &mut handle) })?;
        Ok(unsafe { Device::from_raw(handle) })
    }

    /// An NVIDIA GPU by its number, over the CUDA driver. `Unsupported` where there is none.
    #[cfg(feature = "cuda")]
    pub fn cuda(ordinal: i32) -> Result<Device> {
        let mut config: sys::weir_cuda_device_config = unsafe { zeroed() };
        config.struct_size = size_of::<sys::weir_cuda_device_config>();
        config.ordinal = ordinal;
        let mut handle = null_mut();
        check(unsafe { sys::weir_cuda_device_create(&config, &mut handle) })?;
        Ok(unsafe { Device::from_raw(handle) })
    }

    /// The stream of the vendor's runtime that `handle` names, for [`Pool::stream`](crate::Pool::stream).
    ///
    /// # Safety
    /// `handle` is a stream of this device, or NULL for the default stream. It lives until each pool that knows it has
    /// retired it (`Stream::retire`) or is gone.
    pub unsafe fn stream_from_raw(&self, handle: *mut c_void) -> NativeStream {
        NativeStream { device: self.clone(), handle }
    }
}

/// A stream of a device. One of a simulator lives as long as the simulator.
#[derive(Clone)]
pub struct NativeStream {
    pub(crate) device: Device,
    pub(crate) handle: *mut c_void,
}

unsafe impl Send for NativeStream {} // a name for other functions
unsafe impl Sync for NativeStream {}

/// What a [`Simulator`] is like. `SimulatorOptions::default()`: addresses only, 64 GiB, virtual memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimulatorOptions {
    /// 0: 64 GiB, or 1 GiB with `is_backed`.
    pub capacity_bytes: u64,
    /// The memory has real bytes.
    pub is_backed: bool,
    /// The device cannot map memory, so pools take regions.
    pub no_virtual_memory: bool,
}

/// A simulated device in this process, in virtual time. Its auditor finds races, early reuse and leaks; it is told of each
/// block of the device's pools.
#[derive(Clone)]
pub struct Simulator(Device);

impl Simulator {
    pub fn new(options: SimulatorOptions) -> Result<Simulator> {
        let mut config: sys::weir_sim_config = unsafe { zeroed() };
        config.struct_size = size_of::<sys::weir_sim_config>();
        config.mode = i32::from(options.is_backed);
        config.capacity_bytes = options.capacity_bytes;
        config.no_virtual_memory = options.no_virtual_memory;
        let mut sim = null_mut();
        check(unsafe { sys::weir_sim_create(&config, &mut sim) })?;
        let handle = unsafe { sys::weir_sim_device(sim) };
        Ok(Simulator(Device(Arc::new(DeviceLife { handle, sim }))))
    }

    fn sim(&self) -> *mut c_void {
        (self.0).0.sim
    }

    /// Creates a stream.
    pub fn create_stream(&self) -> Result<NativeStream> {
        let mut handle = null_mut();
        check(unsafe { sys::weir_sim_stream_create(self.sim(), &mut handle) })?;
        Ok(NativeStream { device: self.0.clone(), handle })
    }

    /// Queues a fill of the whole block on a stream. It runs when virtual time gets there: [`Simulator::sync`].
    pub fn fill(&self, stream: &NativeStream, block: &Block, value: u8, what: &str) -> Result<()> {
        let what = c_text(what);
        check(unsafe {
            sys::weir_sim_fill(self.sim(), stream.handle, block.address(), block.size(), value, what.as_ptr())
        })
    }

    /// Queues a copy of the block's bytes to the host on a stream, lets all queued work run, and returns the bytes.
    pub fn read(&self, stream: &NativeStream, block: &Block) -> Result<Vec<u8>> {
        let mut bytes = vec![0u8; block.size() as usize];
        let (to, what) = (bytes.as_mut_ptr() as *mut c_void, c_text("read"));
        check(unsafe {
            sys::weir_sim_copy_to_host(self.sim(), stream.handle, to, block.address(), block.size(), what.as_ptr())
        })?;
        match self.sync() {
            Ok(()) => Ok(bytes),
            Err(error) => {
                std::mem::forget(bytes); // the copy may not have been dropped yet
                Err(error)
            }
        }
    }

    /// Lets all queued work run.
    pub fn sync(&self) -> Result<()> {
        check(unsafe { sys::weir_sim_sync(self.sim()) })
    }

    /// The auditor's findings, each a sentence.
    pub fn findings(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut finding: sys::weir_sim_finding = unsafe { zeroed() };
        while unsafe { sys::weir_sim_finding_at(self.sim(), found.len(), &mut finding) } {
            found.push(unsafe { copy_text(finding.text.as_ptr()) });
        }
        found
    }
}

impl Deref for Simulator {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.0
    }
}

impl DeviceLife {
    /// Tells the simulator's auditor of a block, or of its end.
    pub(crate) fn announce(&self, is_alloc: bool, address: u64, size: u64, stream: *mut c_void) {
        if self.sim.is_null() {
            return;
        }
        let tag = b"block\0".as_ptr() as *const c_char;
        unsafe {
            let of = if stream.is_null() { sys::weir_sim_default_stream(self.sim) } else { stream };
            if is_alloc {
                sys::weir_sim_block_alloc(self.sim, address, size, of, tag);
            } else {
                sys::weir_sim_block_free(self.sim, address, of, tag);
            }
        }
    }
}

/// A C string; what follows a NUL is cut.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or("")).unwrap_or_default()
}
