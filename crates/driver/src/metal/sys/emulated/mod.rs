//! A stand-in for Metal, for tests on other systems: kernels are interpreted.
//!
//! It does what Metal's documentation allows, and a device seldom does: work begins only when it is
//! waited for, or asked about many times; launches between two barriers, and copies, run in the
//! opposite order; new memory holds no zeros. What the documentation forbids, it finds: the host
//! writes to a buffer that work under way uses.

mod commands;

pub use commands::{CommandQueue, Commands, Committed, Compiled};

use super::Traits;
use elinvar_core::Error;
use elinvar_kernel::interp::Flushes;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// What the devices of this thread are.
#[derive(Clone)]
pub struct Config {
    pub traits: Vec<Traits>,
    /// What their arithmetic flushes.
    pub flushes: Flushes,
    /// Bytes of memory.
    pub room: u64,
    /// What the next command buffer ends with.
    pub fails: Arc<Mutex<Option<Error>>>,
    /// The size of SIMD-groups that kernels are compiled for.
    pub lanes: u32,
}

impl Default for Config {
    fn default() -> Config {
        let traits = Traits {
            name: "Emulated".into(),
            system: "macOS Version 15.0 (Build 0)".into(),
            unified: true,
            memory: 1 << 30,
            largest: 1 << 28,
            shared: 32 << 10,
            invocations: 1024,
            simd_groups: true,
            language: 310,
        };
        Config {
            traits: vec![traits],
            flushes: Flushes::default(),
            room: 1 << 30,
            fails: Arc::default(),
            lanes: 32,
        }
    }
}

thread_local! {
    static CONFIG: RefCell<Config> = RefCell::default();
}

/// Devices that this thread lists from now on are these.
pub fn configure(config: Config) {
    CONFIG.set(config);
}

/// A device.
pub struct Device {
    config: Config,
    used: Arc<AtomicU64>,
}

pub fn devices() -> Vec<(Device, Traits)> {
    let config = CONFIG.with_borrow(Config::clone);
    let device = |t: &Traits| (Device { config: config.clone(), used: Arc::default() }, t.clone());
    config.traits.iter().map(device).collect()
}

impl Device {
    pub fn buffer(&self, bytes: u64) -> Option<Buffer> {
        let before = self.used.fetch_add(bytes, SeqCst);
        let inner = Inner {
            at: Box::into_raw(vec![0xa5u8; bytes as usize].into_boxed_slice()),
            used: self.used.clone(),
            pending: AtomicUsize::new(0),
        };
        // What does not fit is given back when this is dropped.
        (before + bytes <= self.config.room).then(|| Buffer(Arc::new(inner)))
    }
}

/// A buffer.
#[derive(Clone)]
pub struct Buffer(Arc<Inner>);

struct Inner {
    at: *mut [u8],
    used: Arc<AtomicU64>,
    /// Command buffers under way that use it.
    pending: AtomicUsize,
}

// SAFETY: the memory is owned, and reached by those that Metal's rules let reach it; this is for
// tests of those rules.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        self.used.fetch_sub(self.at.len() as u64, SeqCst);
        // SAFETY: it was made of a box, and this is the last to know it.
        drop(unsafe { Box::from_raw(self.at) });
    }
}

impl Buffer {
    pub fn len(&self) -> u64 {
        self.0.at.len() as u64
    }
    pub fn at(&self) -> *mut u8 {
        self.0.at.cast()
    }
    fn range(&self, offset: u64, len: usize) -> *mut u8 {
        assert!(offset + len as u64 <= self.len(), "{len} bytes at {offset} of a buffer of {}", self.len());
        // SAFETY: just checked.
        unsafe { self.at().add(offset as usize) }
    }
    /// # Safety
    /// As Metal's.
    pub unsafe fn write(&self, offset: u64, bytes: &[u8]) {
        assert_eq!(self.0.pending.load(SeqCst), 0, "the host writes to a buffer that work under way uses");
        let to = self.range(offset, bytes.len());
        // SAFETY: the range lies in the buffer; the caller says that no one else uses it.
        unsafe { to.copy_from(bytes.as_ptr(), bytes.len()) }
    }
    /// # Safety
    /// As Metal's.
    pub unsafe fn read(&self, offset: u64, bytes: &mut [u8]) {
        let from = self.range(offset, bytes.len());
        // SAFETY: as in `write`.
        unsafe { bytes.as_mut_ptr().copy_from(from, bytes.len()) }
    }
}
